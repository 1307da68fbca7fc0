//! Step costs of a pair on this machine, measured once and remembered in the cache directory.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use dflash_engine::{Decoder, EngineError, StepCosts};
use sysinfo::System;

use crate::options::Options;
use crate::progress::Progress;
use crate::report::{Failure, Outcome};
use crate::runtime::{DraftInfo, PairInfo};

/// Costs by what they depend on.
type Table = BTreeMap<String, StepCosts>;

/// The costs of `decoder`, measured when this machine has not seen the pair: a fraction of a second for a small
/// one, some seconds for a large one.
///
/// They decide about time, never about text, so a cache that cannot be read or written is no failure.
pub fn known_or_measured(
    decoder: &Decoder,
    info: &PairInfo,
    options: &Options,
    progress: Progress,
) -> Outcome<StepCosts> {
    let file = options.cache().ok().map(|cache| cache.root().join("step-costs.json"));
    let key = key(decoder, info);
    let mut table = file.as_deref().map(read).unwrap_or_default();
    if let Some(costs) = table.get(&key).filter(|costs| costs.fit(decoder)) {
        return Ok(costs.clone());
    }
    let costs = measured(decoder, progress)?;
    if let Some(file) = file {
        table.insert(key, costs.clone());
        write(&file, &table);
    }
    Ok(costs)
}

/// A measurement that takes a moment says so.
fn measured(decoder: &Decoder, progress: Progress) -> Outcome<StepCosts> {
    let (began, mut said) = (Instant::now(), false);
    let mut step = || {
        if !said && began.elapsed() > Duration::from_secs(1) {
            said = true;
            progress.note("Measuring how long this pair's steps take, once");
        }
    };
    StepCosts::measure(decoder, &mut step).map_err(unmeasurable)
}

fn unmeasurable(error: EngineError) -> Failure {
    let failure = Failure::from_error(&error);
    match error {
        EngineError::Proposer { .. } => {
            failure.hint("--draft none decodes without it, --draft PATH takes another")
        }
        _ => failure,
    }
}

fn key(decoder: &Decoder, info: &PairInfo) -> String {
    let draft = match &info.draft {
        DraftInfo::None => "none".to_owned(),
        DraftInfo::Ngram => "ngram".to_owned(),
        DraftInfo::Model { path, quant, .. } => format!("{} {}", path.display(), quant.0),
    };
    // A cache directory may be shared by machines.
    let host = System::host_name().unwrap_or_default();
    format!(
        "{} | {host} | {} | {} {} | {draft} | {} rows",
        env!("CARGO_PKG_VERSION"),
        info.backend,
        info.target_path.display(),
        info.weight_bytes,
        decoder.options().max_width(),
    )
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
            r#"{"a": {"verify": [], "propose": []}}"#,
            r#"{"a": {"verify": [[1, -1]], "propose": []}}"#,
        ] {
            fs::write(file.path(), text).unwrap();
            assert!(read(file.path()).is_empty(), "{text}");
        }
        fs::write(file.path(), r#"{"a": {"verify": [[1, 0.5]], "propose": [null]}}"#).unwrap();
        assert_eq!(read(file.path()).len(), 1);
    }
}
