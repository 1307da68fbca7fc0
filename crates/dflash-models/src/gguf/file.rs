use std::collections::BTreeSet;
use std::path::Path;

use super::cursor::Cursor;
use super::metadata::Metadata;
use super::value::Value;
use crate::map::Map;
use crate::safetensors::{TensorInfo, refuse_overlap, refuse_pointer};
use crate::{Element, ModelError};

/// Formats with a reader, for error messages.
const SUPPORTED: &str = "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K";
/// Dimensions a tensor may have by the format's own rule.
const MAX_DIMS: u32 = 4;
/// Bytes of the shortest key with a value: length, type, one byte.
const LEAST_KEY: usize = 13;
/// Bytes of the shortest tensor entry: name length, dimensions, type, offset.
const LEAST_TENSOR: usize = 24;

/// A GGUF file: metadata and where its tensors stand.
pub(super) struct GgufFile {
    /// The mapped file.
    pub(super) map: Map,
    /// Keys and values.
    pub(super) metadata: Metadata,
    /// In file order; shapes outermost dimension first.
    pub(super) tensors: Vec<TensorInfo>,
}

impl GgufFile {
    /// Maps a file and checks its whole header.
    ///
    /// # Errors
    /// [`ModelError::Io`], [`ModelError::LfsPointer`], [`ModelError::Damaged`] or
    /// [`ModelError::UnsupportedFormat`].
    pub(super) fn open(path: &Path) -> Result<Self, ModelError> {
        let map = Map::open(path)?;
        refuse_pointer(path, map.bytes())?;
        let damaged = |what| ModelError::Damaged { path: path.to_owned(), what };
        let (metadata, raw, data_start) = header(path, map.bytes()).map_err(damaged)?;
        let tensors = raw.into_iter().map(|raw| raw.check(path, data_start, map.bytes().len()));
        let tensors = tensors.collect::<Result<Vec<_>, _>>()?;
        refuse_overlap(path, &tensors)?;
        Ok(Self { map, metadata, tensors })
    }
}

/// A tensor entry as it stands in the file.
struct RawTensor {
    name: String,
    shape: Vec<usize>,
    kind: u32,
    offset: u64,
}

fn header(path: &Path, bytes: &[u8]) -> Result<(Metadata, Vec<RawTensor>, usize), String> {
    let mut cursor = Cursor::new(bytes);
    if cursor.take(4)? != b"GGUF" {
        return Err("it does not begin with GGUF".into());
    }
    match cursor.u32()? {
        2 | 3 => {}
        other => return Err(format!("GGUF version {other} is not read (2 and 3 are)")),
    }
    let tensors = cursor.count(LEAST_TENSOR, "tensors")?;
    let keys = cursor.count(LEAST_KEY, "metadata keys")?;
    let metadata = Metadata::read(path, &mut cursor, keys)?;
    let tensors = tensor_entries(&mut cursor, tensors)?;
    let data_start = align(cursor.position(), alignment(&metadata)?).ok_or("its header is too long")?;
    Ok((metadata, tensors, data_start))
}

fn tensor_entries(cursor: &mut Cursor<'_>, count: usize) -> Result<Vec<RawTensor>, String> {
    let mut names = BTreeSet::new();
    let mut entries = Vec::new();
    for _ in 0..count {
        let entry = tensor_entry(cursor)?;
        if !names.insert(entry.name.clone()) {
            return Err(format!("tensor {} stands there twice", entry.name));
        }
        entries.push(entry);
    }
    Ok(entries)
}

fn tensor_entry(cursor: &mut Cursor<'_>) -> Result<RawTensor, String> {
    let name = cursor.string()?;
    let dims = cursor.u32()?;
    if !(1..=MAX_DIMS).contains(&dims) {
        return Err(format!("tensor {name} has {dims} dimensions"));
    }
    let size = |n: u64| usize::try_from(n).map_err(|_| format!("tensor {name} has a dimension of {n}"));
    let mut shape = (0..dims).map(|_| cursor.u64().and_then(size)).collect::<Result<Vec<_>, _>>()?;
    // The file lists the innermost dimension first.
    shape.reverse();
    Ok(RawTensor { shape, kind: cursor.u32()?, offset: cursor.u64()?, name })
}

fn alignment(metadata: &Metadata) -> Result<usize, String> {
    match metadata.get("general.alignment") {
        None => Ok(32),
        Some(Value::Integer(n)) if (8..=1 << 20).contains(n) && n.count_ones() == 1 => Ok(*n as usize),
        Some(_) => Err("general.alignment is not a power of two from 8".into()),
    }
}

fn align(position: usize, alignment: usize) -> Option<usize> {
    position.checked_next_multiple_of(alignment)
}

impl RawTensor {
    fn check(self, path: &Path, data_start: usize, length: usize) -> Result<TensorInfo, ModelError> {
        let Some(element) = Element::of_gguf(self.kind) else {
            return Err(ModelError::UnsupportedFormat {
                path: path.to_owned(),
                tensor: self.name,
                format: type_name(self.kind),
                supported: SUPPORTED,
            });
        };
        let damaged = |what: &str| ModelError::Damaged {
            path: path.to_owned(),
            what: format!("tensor {} {what}", self.name),
        };
        let bytes = element.bytes(&self.shape).ok_or_else(|| damaged("has an impossible shape"))?;
        let start = usize::try_from(self.offset).ok().and_then(|offset| data_start.checked_add(offset));
        let start = start.ok_or_else(|| damaged("has an impossible offset"))?;
        let end = start.checked_add(bytes).filter(|&end| end <= length);
        let end = end.ok_or_else(|| damaged("runs beyond the end of the file"))?;
        Ok(TensorInfo { name: self.name, element, shape: self.shape, range: start..end })
    }
}

fn type_name(kind: u32) -> String {
    let known = match kind {
        9 => "Q8_1",
        15 => "Q8_K",
        16 => "IQ2_XXS",
        17 => "IQ2_XS",
        18 => "IQ3_XXS",
        19 => "IQ1_S",
        20 => "IQ4_NL",
        21 => "IQ3_S",
        22 => "IQ2_S",
        23 => "IQ4_XS",
        24 => "I8",
        25 => "I16",
        26 => "I32",
        28 => "F64",
        29 => "IQ1_M",
        34 => "TQ1_0",
        35 => "TQ2_0",
        39 => "MXFP4",
        other => return format!("GGUF type {other}"),
    };
    known.into()
}
