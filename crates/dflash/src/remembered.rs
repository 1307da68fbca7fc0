//! Small things that are learned of a pair and kept in the cache directory. They decide about time, never about
//! text, so that a cache which cannot be read or written is no failure.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use dflash_engine::Decoder;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::options::Options;
use crate::runtime::{DraftInfo, PairInfo};

/// What is remembered of one pair.
#[derive(Debug, Serialize, Deserialize)]
pub struct Entry<T> {
    /// What it is true for: for others it is learned again.
    pub of: String,
    /// The thing.
    pub value: T,
}

type Table<T> = BTreeMap<String, Entry<T>>;

/// What `file` says of `key`, if it is true for `of`.
pub fn recall<T: DeserializeOwned>(options: &Options, file: &str, key: &str, of: &str) -> Option<T> {
    let entry = read::<T>(&place(options, file)?).remove(key)?;
    (entry.of == of).then_some(entry.value)
}

/// Remembers in place of what was known of `key`.
pub fn keep<T: Serialize + DeserializeOwned>(options: &Options, file: &str, key: &str, entry: Entry<T>) {
    if let Some(file) = place(options, file) {
        let mut table = read(&file);
        table.insert(key.to_owned(), entry);
        write(&file, &table);
    }
}

/// Names a pair and the rows of its blocks.
pub fn pair(decoder: &Decoder, info: &PairInfo) -> String {
    let draft = match &info.draft {
        DraftInfo::None => "none".to_owned(),
        DraftInfo::Ngram => "ngram".to_owned(),
        DraftInfo::Model { path, quant, .. } => format!("{} {}", path.display(), quant.0),
    };
    format!("{} | {draft} | {} rows", info.target_path.display(), decoder.options().max_width())
}

/// The state of a pair's files.
pub fn files(info: &PairInfo) -> String {
    let draft = match &info.draft {
        DraftInfo::Model { path, .. } => stamp(path),
        DraftInfo::None | DraftInfo::Ngram => String::new(),
    };
    format!("{} | {draft}", stamp(&info.target_path))
}

/// Size and last change of a file, or of the files of a directory: another one in its place has others.
pub fn stamp(path: &Path) -> String {
    let files = match fs::read_dir(path) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
        Err(_) => vec![path.to_owned()],
    };
    let facts = files.iter().filter_map(|file| fs::metadata(file).ok()).filter(fs::Metadata::is_file);
    let (mut bytes, mut changed) = (0, SystemTime::UNIX_EPOCH);
    for file in facts {
        bytes += file.len();
        changed = changed.max(file.modified().unwrap_or(changed));
    }
    let changed = changed.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("{bytes} bytes {}", changed.as_nanos())
}

fn place(options: &Options, file: &str) -> Option<PathBuf> {
    options.cache().ok().map(|cache| cache.root().join(file))
}

fn read<T: DeserializeOwned>(file: &Path) -> Table<T> {
    fs::read(file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

/// Written beside and renamed, so that a reader never sees half of it.
fn write<T: Serialize>(file: &Path, table: &Table<T>) {
    let Some(dir) = file.parent() else { return };
    let save = || -> std::io::Result<PathBuf> {
        fs::create_dir_all(dir)?;
        let mut temp = tempfile::NamedTempFile::with_prefix_in(".remembered-", dir)?;
        serde_json::to_writer_pretty(&mut temp, table)?;
        temp.persist(file)?;
        Ok(file.to_owned())
    };
    // Learned again next time.
    let _ = save();
}

#[cfg(test)]
mod tests {
    use dflash_engine::StepCosts;

    use super::*;

    #[test]
    fn a_table_that_makes_no_sense_is_an_empty_one() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for text in [
            "",
            "[]",
            r#"{"a": {"verify": [[1, 0.5]], "propose": [null]}}"#,
            r#"{"a": {"of": "b", "value": {"verify": [], "propose": []}}}"#,
            r#"{"a": {"of": "b", "value": {"verify": [[1, -1]], "propose": []}}}"#,
        ] {
            fs::write(file.path(), text).unwrap();
            assert!(read::<StepCosts>(file.path()).is_empty(), "{text}");
        }
        fs::write(file.path(), r#"{"a": {"of": "b", "value": {"verify": [[1, 0.5]], "propose": [null]}}}"#)
            .unwrap();
        assert_eq!(read::<StepCosts>(file.path()).len(), 1);
    }

    #[test]
    fn a_stamp_tells_a_file_from_another_in_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("model.gguf");
        let write_at = |text: &str, seconds| {
            fs::write(&file, text).unwrap();
            let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
            fs::File::options().write(true).open(&file).unwrap().set_modified(time).unwrap();
            [stamp(&file), stamp(dir.path())]
        };
        let first = write_at("abc", 1000);
        assert_eq!(write_at("abc", 1000), first);
        assert_eq!(first[0], first[1], "a directory has the stamp of its files");
        for other in [write_at("abcd", 1000), write_at("xyz", 2000)] {
            assert!(other[0] != first[0] && other[1] != first[1], "{other:?}");
        }
        assert_eq!(stamp(&dir.path().join("absent")), "0 bytes 0");
    }
}
