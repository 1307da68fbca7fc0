//! GGUF files taken apart and put together again.

use std::path::Path;

/// Types of metadata values.
pub const U16: u32 = 2;
pub const U32: u32 = 4;
pub const I32: u32 = 5;
pub const F32: u32 = 6;
pub const BOOL: u32 = 7;
pub const TEXT: u32 = 8;
pub const ARRAY: u32 = 9;

/// A file in parts that can be changed.
#[derive(Clone, Default)]
pub struct GgufParts {
    /// Key, type, bytes of the value.
    pub keys: Vec<(String, u32, Vec<u8>)>,
    pub tensors: Vec<GgufTensor>,
}

#[derive(Clone)]
pub struct GgufTensor {
    pub name: String,
    /// Innermost first, as in the file.
    pub dims: Vec<u64>,
    pub kind: u32,
    pub data: Vec<u8>,
}

/// A string as a value.
pub fn text(value: &str) -> Vec<u8> {
    [&(value.len() as u64).to_le_bytes(), value.as_bytes()].concat()
}

/// An array as a value, of elements of four bytes or fewer.
pub fn array(kind: u32, elements: &[&[u8]]) -> Vec<u8> {
    let mut bytes = kind.to_le_bytes().to_vec();
    bytes.extend((elements.len() as u64).to_le_bytes());
    bytes.extend(elements.concat());
    bytes
}

impl GgufParts {
    pub fn read(path: &Path) -> Self {
        let bytes = std::fs::read(path).unwrap();
        let mut at = Reader { bytes: &bytes, at: 8 };
        let (tensors, keys) = (at.u64(), at.u64());
        let keys = (0..keys).map(|_| at.key()).collect();
        let heads = (0..tensors).map(|_| at.tensor()).collect::<Vec<_>>();
        let start = at.at.next_multiple_of(32);
        let ends = |offset: u64| heads.iter().map(|head| head.3).filter(|&end| end > offset).min();
        let data = |offset: u64| {
            let end = ends(offset).map_or(bytes.len(), |end| start + end as usize);
            bytes[start + offset as usize..end].to_vec()
        };
        let tensor = |(name, dims, kind, offset): &(String, Vec<u64>, u32, u64)| GgufTensor {
            name: name.clone(),
            dims: dims.clone(),
            kind: *kind,
            data: data(*offset),
        };
        Self { keys, tensors: heads.iter().map(tensor).collect() }
    }

    /// Sets or adds a key.
    pub fn set(&mut self, key: &str, kind: u32, value: &[u8]) {
        self.remove(key);
        self.keys.push((key.into(), kind, value.into()));
    }

    pub fn remove(&mut self, key: &str) {
        self.keys.retain(|(name, ..)| name != key);
    }

    pub fn tensor(&mut self, name: &str) -> &mut GgufTensor {
        self.tensors.iter_mut().find(|tensor| tensor.name == name).expect("the tensor")
    }

    pub fn write(&self, path: &Path) {
        let mut bytes = b"GGUF\x03\0\0\0".to_vec();
        bytes.extend((self.tensors.len() as u64).to_le_bytes());
        bytes.extend((self.keys.len() as u64).to_le_bytes());
        for (key, kind, value) in &self.keys {
            bytes.extend(text(key));
            bytes.extend(kind.to_le_bytes());
            bytes.extend(value);
        }
        let mut data = Vec::<u8>::new();
        for tensor in &self.tensors {
            data.resize(data.len().next_multiple_of(32), 0);
            bytes.extend(text(&tensor.name));
            bytes.extend((tensor.dims.len() as u32).to_le_bytes());
            bytes.extend(tensor.dims.iter().flat_map(|n| n.to_le_bytes()));
            bytes.extend(tensor.kind.to_le_bytes());
            bytes.extend((data.len() as u64).to_le_bytes());
            data.extend(&tensor.data);
        }
        bytes.resize(bytes.len().next_multiple_of(32), 0);
        bytes.extend(data);
        std::fs::write(path, bytes).unwrap();
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn take(&mut self, count: usize) -> &[u8] {
        self.at += count;
        &self.bytes[self.at - count..self.at]
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take(4).try_into().unwrap())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take(8).try_into().unwrap())
    }

    fn string(&mut self) -> String {
        let length = self.u64() as usize;
        String::from_utf8(self.take(length).to_vec()).unwrap()
    }

    fn key(&mut self) -> (String, u32, Vec<u8>) {
        let (key, kind) = (self.string(), self.u32());
        let start = self.at;
        self.skip(kind);
        (key, kind, self.bytes[start..self.at].to_vec())
    }

    fn skip(&mut self, kind: u32) {
        match kind {
            0 | 1 | BOOL => drop(self.take(1)),
            U16 | 3 => drop(self.take(2)),
            U32 | I32 | F32 => drop(self.take(4)),
            TEXT => drop(self.string()),
            ARRAY => {
                let (kind, count) = (self.u32(), self.u64());
                (0..count).for_each(|_| self.skip(kind));
            }
            _ => drop(self.take(8)),
        }
    }

    fn tensor(&mut self) -> (String, Vec<u64>, u32, u64) {
        let (name, dims) = (self.string(), self.u32());
        let dims = (0..dims).map(|_| self.u64()).collect();
        (name, dims, self.u32(), self.u64())
    }
}
