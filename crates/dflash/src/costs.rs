//! Step costs of a pair on this machine, measured once and remembered in the cache directory.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use dflash_engine::{Decoder, EngineError, StepCosts};
use serde::{Deserialize, Serialize};
use sysinfo::System;

use crate::options::Options;
use crate::progress::Progress;
use crate::report::{Failure, Outcome};
use crate::runtime::{DraftInfo, PairInfo};

/// Costs by machine, threads and pair.
type Table = BTreeMap<String, Entry>;

/// The costs of one pair.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    /// The build and the files that they are true for: those of others are measured again and take their place.
    of: String,
    costs: StepCosts,
}

/// The costs of `decoder`, measured when this machine has not seen the pair with this build: a fraction of a
/// second for a small one, some seconds for a large one.
///
/// They decide about time, never about text, so a cache that cannot be read or written is no failure.
pub fn known_or_measured(
    decoder: &Decoder,
    info: &PairInfo,
    options: &Options,
    progress: Progress,
) -> Outcome<StepCosts> {
    let known = file(options).and_then(|file| read(&file).remove(&key(decoder, info)));
    if let Some(entry) = known.filter(|entry| entry.of == state(info) && entry.costs.fit(decoder)) {
        return Ok(entry.costs);
    }
    let mut step = progress.when_long("Measuring how long this pair's steps take, once");
    let costs = StepCosts::measure(decoder, &mut step).map_err(unmeasurable)?;
    keep(decoder, info, options, &costs);
    Ok(costs)
}

/// Remembers costs in place of what was known of the pair.
pub fn keep(decoder: &Decoder, info: &PairInfo, options: &Options, costs: &StepCosts) {
    if let Some(file) = file(options) {
        let mut table = read(&file);
        table.insert(key(decoder, info), Entry { of: state(info), costs: costs.clone() });
        write(&file, &table);
    }
}

/// Says what a pair that cannot be measured needs.
pub fn unmeasurable(error: EngineError) -> Failure {
    let failure = Failure::from_error(&error);
    match error {
        EngineError::Proposer { .. } => {
            failure.hint("--draft none decodes without it, --draft PATH takes another")
        }
        _ => failure,
    }
}

fn file(options: &Options) -> Option<PathBuf> {
    options.cache().ok().map(|cache| cache.root().join("step-costs.json"))
}

fn key(decoder: &Decoder, info: &PairInfo) -> String {
    let draft = match &info.draft {
        DraftInfo::None => "none".to_owned(),
        DraftInfo::Ngram => "ngram".to_owned(),
        DraftInfo::Model { path, quant, .. } => format!("{} {}", path.display(), quant.0),
    };
    // A cache directory may be shared by machines.
    let host = System::host_name().unwrap_or_default();
    let rows = decoder.options().max_width();
    format!("{host} | {} | {} | {draft} | {rows} rows", info.backend, info.target_path.display())
}

/// The build and the files of a pair.
fn state(info: &PairInfo) -> String {
    let build = std::env::current_exe().map(|path| stamp(&path)).unwrap_or_default();
    let draft = match &info.draft {
        DraftInfo::Model { path, .. } => stamp(path),
        DraftInfo::None | DraftInfo::Ngram => String::new(),
    };
    format!("{} {build} | {} | {draft}", env!("CARGO_PKG_VERSION"), stamp(&info.target_path))
}

/// Size and last change of a file, or of the files of a directory: another one in its place has others.
fn stamp(path: &Path) -> String {
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

fn read(file: &Path) -> Table {
    fs::read(file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

/// Written beside and renamed, so that a reader never sees half of it.
fn write(file: &Path, table: &Table) {
    let Some(dir) = file.parent() else { return };
    let save = || -> std::io::Result<PathBuf> {
        fs::create_dir_all(dir)?;
        let mut temp = tempfile::NamedTempFile::with_prefix_in(".step-costs-", dir)?;
        serde_json::to_writer_pretty(&mut temp, table)?;
        temp.persist(file)?;
        Ok(file.to_owned())
    };
    // Measured again next time.
    let _ = save();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_makes_no_sense_is_an_empty_one() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for text in [
            "",
            "[]",
            r#"{"a": {"verify": [[1, 0.5]], "propose": [null]}}"#,
            r#"{"a": {"of": "b", "costs": {"verify": [], "propose": []}}}"#,
            r#"{"a": {"of": "b", "costs": {"verify": [[1, -1]], "propose": []}}}"#,
        ] {
            fs::write(file.path(), text).unwrap();
            assert!(read(file.path()).is_empty(), "{text}");
        }
        fs::write(file.path(), r#"{"a": {"of": "b", "costs": {"verify": [[1, 0.5]], "propose": [null]}}}"#)
            .unwrap();
        assert_eq!(read(file.path()).len(), 1);
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
