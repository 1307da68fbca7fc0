//! The local cache of model repositories that other tools fill. It is only ever read: nothing here
//! reaches the network.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::env::Environment;

/// The hub cache of this machine, if there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubCache(Option<PathBuf>);

/// A repository's files as the cache has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The directory that has the files.
    pub path: PathBuf,
    /// Files that a loader will want and that are absent: an unfinished download.
    pub missing: Vec<String>,
}

impl Snapshot {
    /// Whether nothing is missing.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }
}

impl HubCache {
    /// Where the hub cache is, by the variables that its own tools obey.
    pub fn resolve(env: &Environment) -> Self {
        Self(env.path("HF_HUB_CACHE").or_else(|| Some(hub_home(env)?.join("hub"))))
    }

    /// A hub cache at `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self(Some(root.into()))
    }

    /// The directory itself.
    pub fn root(&self) -> Option<&Path> {
        self.0.as_deref()
    }

    /// The snapshot of `repo`: `organisation/name`, or a name under any organisation.
    pub fn find(&self, repo: &str) -> Option<Snapshot> {
        let mut dirs: Vec<PathBuf> = children(self.root()?).filter(|dir| is_repo(dir, repo)).collect();
        dirs.sort();
        let snapshots: Vec<Snapshot> =
            dirs.iter().filter_map(|dir| newest_snapshot(dir)).map(inspect).collect();
        let complete = snapshots.iter().position(Snapshot::is_complete).unwrap_or(0);
        snapshots.into_iter().nth(complete)
    }
}

fn hub_home(env: &Environment) -> Option<PathBuf> {
    let below_cache = |cache: PathBuf| cache.join("huggingface");
    env.path("HF_HOME")
        .or_else(|| env.path("XDG_CACHE_HOME").map(below_cache))
        .or_else(|| env.home().map(|home| below_cache(home.join(".cache"))))
}

fn children(dir: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn is_repo(dir: &Path, repo: &str) -> bool {
    let Some(id) = repo_id(dir) else { return false };
    let name = if repo.contains('/') { id.as_str() } else { id.rsplit('/').next().unwrap_or(&id) };
    name.eq_ignore_ascii_case(repo)
}

/// The repository of a directory `models--organisation--name`.
pub fn repo_id(dir: &Path) -> Option<String> {
    Some(dir.file_name()?.to_str()?.strip_prefix("models--")?.replacen("--", "/", 1))
}

/// What `main` points to, else the snapshot that changed last.
fn newest_snapshot(repo: &Path) -> Option<PathBuf> {
    let snapshots = repo.join("snapshots");
    let of_main = fs::read_to_string(repo.join("refs").join("main")).ok();
    let of_main = of_main.map(|revision| snapshots.join(revision.trim())).filter(|dir| dir.is_dir());
    let changed = |dir: &PathBuf| dir.metadata().and_then(|meta| meta.modified()).ok();
    of_main.or_else(|| children(&snapshots).filter(|dir| dir.is_dir()).max_by_key(changed))
}

fn inspect(path: PathBuf) -> Snapshot {
    let wanted = std::iter::once("config.json".to_owned()).chain(weight_files(&path));
    let missing = wanted.filter(|name| !has_content(&path.join(name))).collect();
    Snapshot { path, missing }
}

fn has_content(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.len() > 0)
}

#[derive(Deserialize)]
struct ShardIndex {
    weight_map: std::collections::BTreeMap<String, String>,
}

/// The weight files that a loader will open: the shards that the index names, else the single file.
fn weight_files(dir: &Path) -> BTreeSet<String> {
    let index = fs::read(dir.join("model.safetensors.index.json")).ok();
    match index.and_then(|bytes| serde_json::from_slice::<ShardIndex>(&bytes).ok()) {
        Some(index) => index.weight_map.into_values().collect(),
        None => BTreeSet::from(["model.safetensors".to_owned()]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repo(root: &Path, id: &str, revision: &str, files: &[(&str, &str)]) -> PathBuf {
        let repo = root.join(format!("models--{}", id.replace('/', "--")));
        let snapshot = repo.join("snapshots").join(revision);
        fs::create_dir_all(&snapshot).unwrap();
        fs::create_dir_all(repo.join("refs")).unwrap();
        fs::write(repo.join("refs/main"), format!("{revision}\n")).unwrap();
        for (name, text) in files {
            fs::write(snapshot.join(name), text).unwrap();
        }
        snapshot
    }

    #[test]
    fn a_snapshot_is_found_by_full_or_short_name_in_any_case() {
        let dir = tempfile::tempdir().unwrap();
        let path =
            repo(dir.path(), "Org/My-Model", "abc", &[("config.json", "{}"), ("model.safetensors", "x")]);
        let hub = HubCache::new(dir.path());
        for name in ["Org/My-Model", "org/my-model", "my-model"] {
            assert_eq!(hub.find(name), Some(Snapshot { path: path.clone(), missing: vec![] }), "{name}");
        }
        for name in ["Other/My-Model", "My", "Org"] {
            assert_eq!(hub.find(name), None, "{name}");
        }
    }

    #[test]
    fn missing_shards_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let index = r#"{"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors","c":"m-3.safetensors"}}"#;
        let files = [
            ("config.json", "{}"),
            ("model.safetensors.index.json", index),
            ("m-1.safetensors", "x"),
            ("m-3.safetensors", ""),
        ];
        repo(dir.path(), "o/m", "r", &files);
        let snapshot = HubCache::new(dir.path()).find("o/m").unwrap();
        assert_eq!(snapshot.missing, ["m-2.safetensors", "m-3.safetensors"]);
    }

    #[test]
    fn a_complete_snapshot_is_preferred_among_organisations() {
        let dir = tempfile::tempdir().unwrap();
        repo(dir.path(), "a/m", "r", &[]);
        let whole = repo(dir.path(), "b/m", "r", &[("config.json", "{}"), ("model.safetensors", "x")]);
        assert_eq!(HubCache::new(dir.path()).find("m").unwrap().path, whole);
    }

    #[cfg(unix)]
    #[test]
    fn the_variables_of_its_own_tools_are_obeyed() {
        let root =
            |pairs: &[(&str, &str)]| HubCache::resolve(&Environment::from_pairs(pairs.iter().copied())).0;
        assert_eq!(root(&[("HF_HUB_CACHE", "/c"), ("HF_HOME", "/h")]), Some("/c".into()));
        assert_eq!(root(&[("HF_HOME", "/h"), ("HOME", "/u")]), Some("/h/hub".into()));
        assert_eq!(root(&[("XDG_CACHE_HOME", "/x"), ("HOME", "/u")]), Some("/x/huggingface/hub".into()));
        assert_eq!(root(&[("HOME", "/u")]), Some("/u/.cache/huggingface/hub".into()));
        assert_eq!(root(&[]), None);
    }
}
