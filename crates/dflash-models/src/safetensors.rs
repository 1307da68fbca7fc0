use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::Path;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::Value;

use crate::map::Map;
use crate::{Element, ModelError};

/// A tensor of one file.
pub(crate) struct TensorInfo {
    /// Name in the file.
    pub(crate) name: String,
    /// Type of the elements.
    pub(crate) element: Element,
    /// Outermost dimension first.
    pub(crate) shape: Vec<usize>,
    /// Bytes within the file.
    pub(crate) range: Range<usize>,
}

/// The header of a safetensors file: a length, JSON, then the data that it points into.
pub(crate) struct Header {
    /// In order of their names.
    pub(crate) tensors: Vec<TensorInfo>,
    /// Whether the file ends before the last tensor does.
    pub(crate) short: bool,
}

impl Header {
    /// Reads and checks the header of a mapped file: names, types, shape products and offsets.
    ///
    /// # Errors
    /// [`ModelError::LfsPointer`] or [`ModelError::Damaged`]. A file that is merely too short is no
    /// error yet, so that all short files of a checkpoint can be named together.
    pub(crate) fn read(map: &Map) -> Result<Self, ModelError> {
        let bytes = map.bytes();
        refuse_pointer(map.path(), bytes)?;
        let Some(data_start) = data_start(bytes) else {
            return Ok(Self { tensors: Vec::new(), short: true });
        };
        let Entries(header) = serde_json::from_slice(&bytes[8..data_start])
            .map_err(|error| damaged(map.path(), format!("its header does not parse ({error})")))?;
        let mut tensors = Vec::with_capacity(header.len());
        for (name, entry) in header.iter().filter(|(name, _)| *name != "__metadata__") {
            let tensor = tensor(name, entry, data_start).ok_or_else(|| {
                damaged(map.path(), format!("the header entry of tensor {name} is invalid"))
            })?;
            tensors.push(tensor);
        }
        refuse_overlap(map.path(), &tensors)?;
        let short = tensors.iter().any(|tensor| tensor.range.end > bytes.len());
        Ok(Self { tensors, short })
    }
}

/// The entries of a header; a name that comes twice is an error, where a map would keep one of them.
struct Entries(BTreeMap<String, Value>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Self(BTreeMap::new()))
    }
}

impl<'de> Visitor<'de> for Entries {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self, A::Error> {
        while let Some((name, entry)) = map.next_entry::<String, Value>()? {
            if self.0.contains_key(&name) {
                return Err(A::Error::custom(format!("tensor {name} stands there twice")));
            }
            self.0.insert(name, entry);
        }
        Ok(self)
    }
}

/// Where the data begin; `None` when the file ends within the header.
fn data_start(bytes: &[u8]) -> Option<usize> {
    let length = u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?);
    let end = usize::try_from(length).ok()?.checked_add(8)?;
    (end <= bytes.len()).then_some(end)
}

fn tensor(name: &str, entry: &Value, data_start: usize) -> Option<TensorInfo> {
    let element = Element::of_safetensors(entry.get("dtype")?.as_str()?)?;
    let shape = numbers(entry.get("shape")?)?;
    let offsets = numbers(entry.get("data_offsets")?)?;
    let [begin, end] = offsets[..] else { return None };
    if end.checked_sub(begin)? != element.bytes(&shape)? {
        return None;
    }
    let range = begin.checked_add(data_start)?..end.checked_add(data_start)?;
    Some(TensorInfo { name: name.to_owned(), element, shape, range })
}

fn numbers(value: &Value) -> Option<Vec<usize>> {
    value.as_array()?.iter().map(|n| usize::try_from(n.as_u64()?).ok()).collect()
}

/// A git-lfs pointer is a short text file that stands in for the real one.
///
/// # Errors
/// [`ModelError::LfsPointer`].
pub(crate) fn refuse_pointer(path: &Path, bytes: &[u8]) -> Result<(), ModelError> {
    if bytes.starts_with(b"version https://git-lfs") {
        return Err(ModelError::LfsPointer { path: path.to_owned() });
    }
    Ok(())
}

/// Tensors own their bytes: shared ones would let a small file unfold into a model of any size.
///
/// # Errors
/// [`ModelError::Damaged`] naming two tensors.
pub(crate) fn refuse_overlap(path: &Path, tensors: &[TensorInfo]) -> Result<(), ModelError> {
    let mut placed = tensors.iter().filter(|tensor| !tensor.range.is_empty()).collect::<Vec<_>>();
    placed.sort_by_key(|tensor| tensor.range.start);
    match placed.windows(2).find(|pair| pair[1].range.start < pair[0].range.end) {
        None => Ok(()),
        Some(pair) => {
            let what = format!("tensors {} and {} share bytes", pair[0].name, pair[1].name);
            Err(damaged(path, what))
        }
    }
}

fn damaged(path: &Path, what: String) -> ModelError {
    ModelError::Damaged { path: path.to_owned(), what }
}
