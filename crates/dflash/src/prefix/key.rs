use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use dflash_tensor::Backend;
use sha2::{Digest, Sha256};

use crate::cache::human_bytes;
use crate::obtain::hex;
use crate::options::Options;
use crate::remembered::{self, Entry};
use crate::report::say;
use crate::runtime::{DraftInfo, PairInfo};

/// Where hashes of weights are remembered.
const REMEMBERED: &str = "weights.json";
/// Bytes that take longer than a second.
const SLOW: u64 = 1 << 30;

/// What shapes states, and nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefixKey {
    /// Of the target's part: weights, and how its backend computes.
    pub target: String,
    /// Of the drafts' parts: weights, quantisation, taps, sink and window.
    pub draft: String,
}

impl PrefixKey {
    /// Of a loaded pair.
    ///
    /// # Errors
    /// Files that cannot be read.
    pub fn of(info: &PairInfo, backend: &dyn Backend, options: &Options) -> io::Result<Self> {
        let target = format!("{} | {}", weights(&info.target_path, options)?, backend.numerics());
        let draft = match &info.draft {
            DraftInfo::Model { path, quant, .. } => {
                let (sink, window) = (options.draft_sink_size.value, options.draft_window_size.value);
                format!("{} | {} | {sink} {window}", weights(path, options)?, quant.0)
            }
            DraftInfo::None | DraftInfo::Ngram => "none".to_owned(),
        };
        let short = |text: &str| hex(&Sha256::digest(text)[..16]);
        Ok(Self { target: short(&target), draft: short(&format!("{target} | {draft}")) })
    }
}

/// The hash of the files of a model, which is remembered as long as they are the same by size, time and place on disk.
fn weights(path: &Path, options: &Options) -> io::Result<String> {
    let files = files(path)?;
    let stamp = files.iter().map(|file| stamp(file)).collect::<io::Result<Vec<_>>>()?.join(" ");
    let key = path.display().to_string();
    if let Some(known) = remembered::recall(options, REMEMBERED, &key, &stamp) {
        return Ok(known);
    }
    let bytes: u64 = files.iter().filter_map(|file| fs::metadata(file).ok()).map(|facts| facts.len()).sum();
    if bytes > SLOW {
        let size = human_bytes(bytes);
        say(format_args!("reading {size} of weights, once: states on disk are kept by their content"));
    }
    let mut hash = Sha256::new();
    for file in &files {
        let mut file = File::open(file)?;
        hash.update(file.metadata()?.len().to_le_bytes());
        let mut buffer = vec![0; 1 << 20];
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                read => hash.update(&buffer[..read]),
            }
        }
    }
    let found = hex(&hash.finalize());
    remembered::keep(options, REMEMBERED, &key, Entry { of: stamp, value: found.clone() });
    Ok(found)
}

/// The files that numbers come from, in order of their names.
fn files(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let shapes = |file: &Path| {
        let extension = file.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        extension == "safetensors" || file.file_name().is_some_and(|name| name == "config.json")
    };
    let mut files = fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    files.retain(|file| shapes(file));
    files.sort();
    Ok(files)
}

/// What tells one file from another that took its place.
fn stamp(file: &Path) -> io::Result<String> {
    let facts = fs::metadata(file)?;
    let changed = facts.modified()?.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    #[cfg(unix)]
    let place = std::os::unix::fs::MetadataExt::ino(&facts);
    #[cfg(not(unix))]
    let place = 0;
    Ok(format!("{place} {} {}", facts.len(), changed.as_nanos()))
}
