use std::path::{Path, PathBuf};

use super::file::GgufFile;
use super::metadata::Metadata;
use super::value::Value;
use crate::ModelError;
use crate::map::Map;
use crate::safetensors::TensorInfo;

/// More parts than any model has.
const MAX_PARTS: usize = 4096;
/// More tensors than any model has.
const MAX_TENSORS: usize = 1 << 24;

/// A model in GGUF: one file, or all parts of a split one.
pub(crate) struct Gguf {
    /// Keys and values, those of the first part.
    pub(crate) metadata: Metadata,
    /// Every file with its tensors, in order of the parts.
    pub(crate) files: Vec<(Map, Vec<TensorInfo>)>,
}

impl Gguf {
    /// Maps a file, and its siblings when it is a part of a split model, and checks all headers.
    ///
    /// # Errors
    /// [`ModelError::Io`], [`ModelError::LfsPointer`], [`ModelError::Damaged`],
    /// [`ModelError::UnsupportedFormat`]; for parts [`ModelError::Incomplete`] or [`ModelError::SplitGguf`].
    pub(crate) fn open(path: &Path) -> Result<Self, ModelError> {
        let given = GgufFile::open(path)?;
        let parts = match Split::read(&given.metadata)? {
            None => vec![given],
            Some(split) => split.parts(given)?,
        };
        let mut metadata = None;
        let mut files = Vec::with_capacity(parts.len());
        for part in parts {
            metadata.get_or_insert(part.metadata);
            files.push((part.map, part.tensors));
        }
        Ok(Self { metadata: metadata.expect("at least the given file"), files })
    }
}

/// What a part says about the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Split {
    /// This part, counted from zero.
    number: usize,
    /// Parts in all.
    count: usize,
    /// Tensors of all parts.
    tensors: usize,
}

impl Split {
    /// `None` for a file that is whole.
    fn read(metadata: &Metadata) -> Result<Option<Self>, ModelError> {
        let required = |key, max| metadata.integer(key, max)?.ok_or_else(|| metadata.missing(key));
        match metadata.integer("split.count", MAX_PARTS)? {
            None | Some(0 | 1) => Ok(None),
            Some(count) => Ok(Some(Self {
                number: required("split.no", count - 1)?,
                count,
                tensors: required("split.tensors.count", MAX_TENSORS)?,
            })),
        }
    }

    fn ending(self, number: usize) -> String {
        format!("-{:05}-of-{:05}.gguf", number + 1, self.count)
    }

    /// All parts in order, of which `given` is one.
    fn parts(self, given: GgufFile) -> Result<Vec<GgufFile>, ModelError> {
        let paths = self.paths(given.map.path())?;
        refuse_missing(&paths)?;
        let number = self.number;
        let mut parts = Vec::with_capacity(self.count);
        for path in paths.iter().take(number) {
            parts.push(GgufFile::open(path)?);
        }
        parts.push(given);
        for path in paths.iter().skip(number + 1) {
            parts.push(GgufFile::open(path)?);
        }
        for (number, part) in parts.iter().enumerate() {
            Self { number, ..self }.check(part)?;
            refuse_contradiction(&parts[0].metadata, &part.metadata)?;
        }
        self.check_tensors(&parts)?;
        Ok(parts)
    }

    fn paths(self, given: &Path) -> Result<Vec<PathBuf>, ModelError> {
        let ending = self.ending(self.number);
        let stem = given.file_name().and_then(|name| name.to_str()?.strip_suffix(&ending));
        let renamed = || {
            let (number, count) = (self.number + 1, self.count);
            let what = format!(
                "its header says part {number} of {count}, so its name must end in {ending}: it was renamed"
            );
            ModelError::SplitGguf { path: given.to_owned(), what }
        };
        let stem = stem.ok_or_else(renamed)?;
        let path = |number| given.with_file_name(format!("{stem}{}", self.ending(number)));
        Ok((0..self.count).map(path).collect())
    }

    /// Compares what a part says with what it must say.
    fn check(self, part: &GgufFile) -> Result<(), ModelError> {
        let said = Self::read(&part.metadata)?;
        let what = match said {
            Some(said) if said == self => return Ok(()),
            None => "its header does not say that it is a part".into(),
            Some(said) if said.count != self.count => {
                format!("it is one of {} parts, its siblings are {}", said.count, self.count)
            }
            Some(said) if said.number != self.number => {
                let (said, named) = (said.number + 1, self.number + 1);
                format!("its header says part {said}, its name part {named}: it was renamed")
            }
            Some(said) => format!(
                "it belongs to a model of {} tensors, its siblings to one of {}",
                said.tensors, self.tensors
            ),
        };
        Err(ModelError::SplitGguf { path: part.map.path().to_owned(), what })
    }

    fn check_tensors(self, parts: &[GgufFile]) -> Result<(), ModelError> {
        let held = parts.iter().map(|part| part.tensors.len()).sum::<usize>();
        if held == self.tensors {
            return Ok(());
        }
        let what = format!("its header promises {} tensors, the parts hold {held} together", self.tensors);
        Err(ModelError::SplitGguf { path: parts[self.number].map.path().to_owned(), what })
    }
}

fn refuse_missing(paths: &[PathBuf]) -> Result<(), ModelError> {
    let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let missing = paths.iter().filter(|path| !path.exists()).map(name).collect::<Vec<_>>();
    if missing.is_empty() {
        return Ok(());
    }
    let dir = paths[0].parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Err(ModelError::Incomplete { dir: dir.to_owned(), missing, short: Vec::new() })
}

/// Later parts mostly hold no more than the keys of the split; what they repeat must be the same.
fn refuse_contradiction(first: &Metadata, part: &Metadata) -> Result<(), ModelError> {
    let same = |key: &str| match (first.get(key), part.get(key)) {
        (Some(Value::Float(a)), Some(Value::Float(b))) => a.to_bits() == b.to_bits(),
        (a, b) => a.is_none() || a == b,
    };
    match part.keys().filter(|key| !key.starts_with("split.")).find(|key| !same(key)) {
        None => Ok(()),
        Some(key) => {
            let what = format!(
                "it belongs to another model: its `{key}` is {}, that of the first part {}",
                part.shown(key),
                first.shown(key)
            );
            Err(ModelError::SplitGguf { path: part.path().to_owned(), what })
        }
    }
}
