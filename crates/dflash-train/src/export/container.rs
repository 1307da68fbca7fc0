//! The GGUF container, version 3: a header of keys and tensor entries, then aligned data.

/// Where tensors begin, in bytes.
const ALIGNMENT: usize = 32;
const VERSION: u32 = 3;

/// The value of a key.
pub(super) enum Value<'a> {
    U32(u32),
    F32(f32),
    Flag(bool),
    Text(&'a str),
    Integers(Vec<i32>),
    Floats(&'a [f32]),
    Texts(&'a [String]),
}

impl Value<'_> {
    /// The number of its type.
    fn kind(&self) -> u32 {
        match self {
            Self::U32(_) => 4,
            Self::Integers(_) => 9,
            Self::F32(_) => 6,
            Self::Flag(_) => 7,
            Self::Text(_) => 8,
            Self::Floats(_) | Self::Texts(_) => 9,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::U32(value) => out.extend(value.to_le_bytes()),
            Self::F32(value) => out.extend(value.to_le_bytes()),
            Self::Flag(value) => out.push((*value).into()),
            Self::Text(value) => text(value, out),
            Self::Integers(values) => array(5, values, out, |value, out| out.extend(value.to_le_bytes())),
            Self::Floats(values) => array(6, values, out, |value, out| out.extend(value.to_le_bytes())),
            Self::Texts(values) => array(8, values, out, |value, out| text(value, out)),
        }
    }
}

fn text(value: &str, out: &mut Vec<u8>) {
    out.extend((value.len() as u64).to_le_bytes());
    out.extend(value.as_bytes());
}

/// An array: the type of its elements, how many, and they.
fn array<T>(kind: u32, values: &[T], out: &mut Vec<u8>, write: impl Fn(&T, &mut Vec<u8>)) {
    out.extend(kind.to_le_bytes());
    out.extend((values.len() as u64).to_le_bytes());
    values.iter().for_each(|value| write(value, out));
}

/// A tensor and its place among the types of GGUF.
pub(super) struct Tensor {
    pub(super) name: String,
    /// Outermost dimension first.
    pub(super) shape: Vec<usize>,
    /// Number of its type.
    pub(super) kind: u32,
    pub(super) bytes: Vec<u8>,
}

/// The bytes of a file.
pub(super) fn file(keys: &[(String, Value<'_>)], tensors: &[Tensor]) -> Vec<u8> {
    let mut out = b"GGUF".to_vec();
    out.extend(VERSION.to_le_bytes());
    out.extend((tensors.len() as u64).to_le_bytes());
    out.extend((keys.len() as u64).to_le_bytes());
    for (key, value) in keys {
        text(key, &mut out);
        out.extend(value.kind().to_le_bytes());
        value.write(&mut out);
    }
    let mut offset = 0;
    for tensor in tensors {
        entry(tensor, offset, &mut out);
        offset = (offset + tensor.bytes.len()).next_multiple_of(ALIGNMENT);
    }
    for tensor in tensors {
        out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
        out.extend(&tensor.bytes);
    }
    out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
    out
}

fn entry(tensor: &Tensor, offset: usize, out: &mut Vec<u8>) {
    text(&tensor.name, out);
    out.extend((tensor.shape.len() as u32).to_le_bytes());
    // The file lists the innermost dimension first.
    tensor.shape.iter().rev().for_each(|&size| out.extend((size as u64).to_le_bytes()));
    out.extend(tensor.kind.to_le_bytes());
    out.extend((offset as u64).to_le_bytes());
}
