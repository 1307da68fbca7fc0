//! What a snapshot directory holds, seen by whoever is about to load it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::id::is_safe_path;
use super::{HubError, gguf};

/// A repository's files as the cache has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// What a loader opens: the directory, or a GGUF file in it.
    pub path: PathBuf,
    /// Files that a loader will want and that are absent: an unfinished download.
    pub missing: Vec<String>,
}

/// The file that says which shards there are.
pub(super) const INDEX: &str = "model.safetensors.index.json";

impl Snapshot {
    /// Whether nothing is missing.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }

    /// Looks at the snapshot in `dir`; `file` chooses a GGUF file. `None` where it has nothing that was
    /// asked for.
    pub(super) fn inspect(dir: &Path, file: Option<&str>) -> Result<Option<Self>, HubError> {
        let files = files_below(dir);
        let models = gguf::models(files.iter().map(String::as_str));
        if file.is_none() && (models.is_empty() || !shards(dir, &files).is_empty()) {
            return Ok(Some(Self::of_directory(dir, &files)));
        }
        match gguf::choose(models, file) {
            Ok(model) => Ok(Some(Self::of_parts(dir, &model.parts()))),
            Err(error @ HubError::SeveralGguf { .. }) => Err(error),
            Err(_) => Ok(None),
        }
    }

    fn of_directory(dir: &Path, files: &[String]) -> Self {
        let mut wanted = shards(dir, files);
        if wanted.is_empty() {
            wanted.insert("model.safetensors".to_owned());
        }
        let wanted = std::iter::once("config.json".to_owned()).chain(wanted);
        Self { path: dir.to_owned(), missing: wanted.filter(|name| !has_content(&dir.join(name))).collect() }
    }

    fn of_parts(dir: &Path, parts: &[String]) -> Self {
        let missing = parts.iter().filter(|part| !has_content(&dir.join(part))).cloned().collect();
        Self { path: dir.join(&parts[0]), missing }
    }
}

#[derive(Deserialize)]
struct ShardIndex {
    weight_map: BTreeMap<String, String>,
}

/// The shards that the index at `path` names; `None` where it is absent or no index.
pub(super) fn indexed_shards(path: &Path) -> Option<BTreeSet<String>> {
    let index: ShardIndex = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    let shards: BTreeSet<String> = index.weight_map.into_values().collect();
    shards.iter().all(|shard| is_safe_path(shard)).then_some(shards)
}

/// Whether a loader takes `name` for weights where there is no index.
pub(super) fn is_weight_file(name: &str) -> bool {
    name.starts_with("model") && name.ends_with(".safetensors") && !name.contains('/')
}

/// The weight files that a loader will open: the shards that the index names, else all there are.
fn shards(dir: &Path, files: &[String]) -> BTreeSet<String> {
    let all = || files.iter().filter(|name| is_weight_file(name)).cloned().collect();
    indexed_shards(&dir.join(INDEX)).unwrap_or_else(all)
}

/// A repository keeps large quantisations in folders of their own, never deeper.
fn files_below(dir: &Path) -> Vec<String> {
    let names = |dir: &Path| {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    let mut files = names(dir);
    for folder in files.clone().iter().filter(|name| dir.join(name).is_dir()) {
        files.extend(names(&dir.join(folder)).into_iter().map(|name| format!("{folder}/{name}")));
    }
    files
}

fn has_content(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.len() > 0)
}
