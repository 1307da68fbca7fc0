//! Files of answers: safetensors with `ids` (U16, or U32 where an id needs it), `answer` (U8, 1 in the answer), `ends`
//! (I64, where each sequence ends), `sources` (I64) and `dropped` (I64, prompts whose answer was not kept); the
//! categories are in the metadata.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use crate::{Sequence, TrainError};

/// What one file holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shard {
    /// Prompts with answers.
    pub sequences: Vec<Sequence>,
    /// Numbers of the prompts that were left out, so that nobody tries them again.
    pub dropped: Vec<u64>,
}

const FORMAT: &str = "dflash answers 1";

impl Shard {
    /// Writes the file as a whole or not at all.
    ///
    /// # Errors
    /// Of the file system.
    pub fn write(&self, path: &Path) -> Result<(), TrainError> {
        let partial = path.with_extension("partial");
        let mut file = fs::File::create(&partial).map_err(TrainError::io(&partial))?;
        file.write_all(&self.bytes()).and_then(|()| file.sync_all()).map_err(TrainError::io(&partial))?;
        fs::rename(&partial, path).map_err(TrainError::io(path))
    }

    fn bytes(&self) -> Vec<u8> {
        let ids: Vec<u32> = self.sequences.iter().flat_map(|sequence| sequence.ids.iter().copied()).collect();
        let narrow = ids.iter().all(|&id| id <= u32::from(u16::MAX));
        let (kind, ids) = match narrow {
            true => (Dtype::U16, ids.iter().flat_map(|&id| (id as u16).to_le_bytes()).collect::<Vec<_>>()),
            false => (Dtype::U32, ids.iter().flat_map(|id| id.to_le_bytes()).collect()),
        };
        let answer: Vec<u8> = self.sequences.iter().flat_map(mask).collect();
        let mut end = 0;
        let ends = self.sequences.iter().map(|sequence| {
            end += sequence.ids.len() as u64;
            end
        });
        let (ends, sources) = (numbers(ends), numbers(self.sequences.iter().map(|sequence| sequence.source)));
        let dropped = numbers(self.dropped.iter().copied());
        let view = |kind, bytes| {
            let count = |size: usize| <[u8]>::len(bytes) / size;
            let size = match kind {
                Dtype::U8 => 1,
                Dtype::U16 => 2,
                Dtype::U32 => 4,
                _ => 8,
            };
            TensorView::new(kind, vec![count(size)], bytes).expect("the shape is that of the bytes")
        };
        let tensors = [
            ("answer", view(Dtype::U8, &answer)),
            ("dropped", view(Dtype::I64, &dropped)),
            ("ends", view(Dtype::I64, &ends)),
            ("ids", view(kind, &ids)),
            ("sources", view(Dtype::I64, &sources)),
        ];
        let categories: Vec<_> = self.sequences.iter().map(|sequence| &sequence.category).collect();
        let categories = serde_json::to_string(&categories).expect("strings are JSON");
        let metadata = [("format", FORMAT.to_owned()), ("categories", categories)];
        let metadata = metadata.map(|(key, value)| (key.to_owned(), value)).into();
        safetensors::serialize(tensors, Some(metadata)).expect("names and shapes are sound")
    }

    /// Reads a file.
    ///
    /// # Errors
    /// What is no such file, or a damaged one.
    pub fn read(path: &Path) -> Result<Self, TrainError> {
        let bytes = fs::read(path).map_err(TrainError::io(path))?;
        let bad =
            |what: &str| TrainError::bad(path, format!("{what}; delete the file and make the data again"));
        let (_, header) = SafeTensors::read_metadata(&bytes).map_err(|error| bad(&error.to_string()))?;
        let metadata =
            header.metadata().as_ref().filter(|all| all.get("format").is_some_and(|it| it == FORMAT));
        let metadata = metadata.ok_or_else(|| bad("is no file of answers"))?;
        let file = SafeTensors::deserialize(&bytes).map_err(|error| bad(&error.to_string()))?;
        let tensor = |name: &str, kind: &[Dtype]| {
            file.tensor(name)
                .ok()
                .filter(|view| kind.contains(&view.dtype()))
                .ok_or_else(|| bad(&format!("lacks {name}")))
        };
        let ids = tensor("ids", &[Dtype::U16, Dtype::U32])?;
        let ids: Vec<u32> = match ids.dtype() {
            Dtype::U16 => {
                ids.data().chunks_exact(2).map(|it| u32::from(u16::from_le_bytes([it[0], it[1]]))).collect()
            }
            _ => ids
                .data()
                .chunks_exact(4)
                .map(|it| u32::from_le_bytes([it[0], it[1], it[2], it[3]]))
                .collect(),
        };
        let list = |name: &str| tensor(name, &[Dtype::I64]).map(|view| read_numbers(view.data()));
        let (ends, sources, dropped) = (list("ends")?, list("sources")?, list("dropped")?);
        let answer = tensor("answer", &[Dtype::U8])?;
        let categories: Vec<String> = metadata
            .get("categories")
            .and_then(|text| serde_json::from_str(text).ok())
            .ok_or_else(|| bad("lacks the categories"))?;
        let sequences = split(&ids, answer.data(), &ends, &sources, categories)
            .ok_or_else(|| bad("contradicts itself"))?;
        Ok(Self { sequences, dropped })
    }
}

fn mask(sequence: &Sequence) -> impl Iterator<Item = u8> {
    let prompt = sequence.prompt;
    (0..sequence.ids.len()).map(move |index| u8::from(index >= prompt))
}

fn numbers(all: impl Iterator<Item = u64>) -> Vec<u8> {
    all.flat_map(u64::to_le_bytes).collect()
}

fn read_numbers(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(8).map(|it| u64::from_le_bytes(it.try_into().expect("chunks of eight"))).collect()
}

fn split(
    ids: &[u32],
    answer: &[u8],
    ends: &[u64],
    sources: &[u64],
    categories: Vec<String>,
) -> Option<Vec<Sequence>> {
    let lengths = [sources.len(), categories.len()];
    if answer.len() != ids.len()
        || lengths != [ends.len(); 2]
        || ends.last().copied().unwrap_or(0) != ids.len() as u64
    {
        return None;
    }
    let mut start = 0;
    let sequence = |((&end, &source), category)| {
        let end = usize::try_from(end).ok()?;
        let (ids, answer) = (ids.get(start..end)?, answer.get(start..end)?);
        start = end;
        let prompt = answer.iter().position(|&flag| flag == 1)?;
        let whole = answer[prompt..].iter().all(|&flag| flag == 1);
        (whole && prompt > 0).then(|| Sequence { source, category, ids: ids.to_vec(), prompt })
    };
    ends.iter().zip(sources).zip(categories).map(sequence).collect()
}

/// The files of answers in a folder, in order.
///
/// # Errors
/// A folder that cannot be read.
pub fn shards(folder: &Path) -> Result<Vec<PathBuf>, TrainError> {
    let entries = fs::read_dir(folder).map_err(TrainError::io(folder))?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(TrainError::io(folder))?.path();
        if number(&path).is_some() {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// The path of file `number`.
pub(super) fn shard_path(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("answers-{number:05}.safetensors"))
}

/// The number in the name of a file of answers.
pub(super) fn number(path: &Path) -> Option<usize> {
    path.file_name()?.to_str()?.strip_prefix("answers-")?.strip_suffix(".safetensors")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{Shard, shard_path, shards};
    use crate::Sequence;

    fn shard(large: u32) -> Shard {
        let sequence = |source, ids: &[u32], prompt| Sequence {
            source,
            category: format!("kind {source}"),
            ids: ids.to_vec(),
            prompt,
        };
        Shard {
            sequences: vec![sequence(3, &[1, 2, 3], 1), sequence(9, &[4, large], 1)],
            dropped: vec![4, 5],
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        for (number, large) in [(1, 65535), (2, 65536)] {
            let path = shard_path(folder.path(), number);
            shard(large).write(&path).unwrap();
            assert_eq!(Shard::read(&path).unwrap(), shard(large));
        }
        Shard::default().write(&shard_path(folder.path(), 3)).unwrap();
        assert_eq!(Shard::read(&shard_path(folder.path(), 3)).unwrap(), Shard::default());
        assert_eq!(shards(folder.path()).unwrap().len(), 3);
    }

    #[test]
    fn damage_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = shard_path(folder.path(), 1);
        shard(7).write(&path).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        for length in [0, 7, 40, bytes.len() - 1] {
            std::fs::write(&path, &bytes[..length]).unwrap();
            assert!(Shard::read(&path).is_err(), "{length} bytes");
        }
        // An end beyond the ids.
        let mut contradiction = shard(7);
        contradiction.sequences[0].prompt = 3;
        contradiction.write(&path).unwrap();
        assert!(Shard::read(&path).unwrap_err().to_string().contains("contradicts"));
    }
}
