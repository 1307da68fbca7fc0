//! The cache of repositories that the Hub's own tools share: the same layout, so that what any of
//! them downloads serves all.
//!
//! `models--org--name/` (or `datasets--org--name/`) has `blobs/` (contents, named by their etag), `snapshots/COMMIT/` (links to them)
//! and `refs/` (the commit of a branch or tag).

use std::fs;
use std::path::{Path, PathBuf};

use super::id::MAIN;
use super::{HubError, HubId, Snapshot, settings};
use crate::env::Environment;

/// The hub cache of this machine, if there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubCache(Option<PathBuf>);

/// A repository in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// `organisation/name`, as its folder spells it.
    pub repo: String,
    /// Its files at the revision that was asked for.
    pub snapshot: Snapshot,
}

impl HubCache {
    /// Where the hub cache is, by the variables that its own tools obey.
    pub fn resolve(env: &Environment) -> Self {
        Self(env.path("HF_HUB_CACHE").or_else(|| Some(settings::home(env)?.join("hub"))))
    }

    /// A hub cache at `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self(Some(root.into()))
    }

    /// The directory itself.
    pub fn root(&self) -> Option<&Path> {
        self.0.as_deref()
    }

    /// The directory of a repository, in the spelling given.
    pub fn repo_dir(&self, id: &HubId) -> Option<PathBuf> {
        Some(self.root()?.join(format!("{}--{}", id.kind.plural(), id.repo.replace('/', "--"))))
    }

    /// The file called `name` of a repository, where it is here.
    pub fn file(&self, id: &HubId, name: &str) -> Option<PathBuf> {
        let file = snapshot_dir(&self.repo_dir(id)?, id.revision.as_deref())?.join(name);
        file.is_file().then_some(file)
    }

    /// What the cache has of `id`; an id without an organisation stands for any. A complete snapshot is
    /// preferred.
    ///
    /// # Errors
    /// [`HubError::SeveralGguf`] where it does not say which of several GGUF files.
    pub fn find(&self, id: &HubId) -> Result<Option<Found>, HubError> {
        let mut first = None;
        for dir in self.repo_dirs().into_iter().filter(|dir| is_repo(dir, &id.repo)) {
            let Some((repo, snapshot)) = repo_id(&dir).zip(snapshot_dir(&dir, id.revision.as_deref())) else {
                continue;
            };
            let Some(snapshot) = Snapshot::inspect(&snapshot, id.file.as_deref())? else { continue };
            let found = Found { repo, snapshot };
            if found.snapshot.is_complete() {
                return Ok(Some(found));
            }
            first.get_or_insert(found);
        }
        Ok(first)
    }

    /// Every repository that is here as a whole.
    pub fn complete_repos(&self) -> Vec<String> {
        let dirs = self.repo_dirs().into_iter();
        let complete = dirs.filter(|dir| {
            snapshot_dir(dir, None).is_some_and(|snapshot| {
                // Several GGUF files are several whole models.
                Snapshot::inspect(&snapshot, None)
                    .map_or(true, |snapshot| snapshot.is_some_and(|snapshot| snapshot.is_complete()))
            })
        });
        complete.filter_map(|dir| repo_id(&dir)).collect()
    }

    fn repo_dirs(&self) -> Vec<PathBuf> {
        let mut dirs: Vec<_> = self.root().into_iter().flat_map(children).collect();
        dirs.sort();
        dirs
    }
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

/// The snapshot of a revision: what its name points to, or the commit itself. Where nobody asked for one,
/// and `main` points nowhere, the snapshot that changed last.
fn snapshot_dir(repo: &Path, revision: Option<&str>) -> Option<PathBuf> {
    let snapshots = repo.join("snapshots");
    let pointed = fs::read_to_string(repo.join("refs").join(revision.unwrap_or(MAIN))).ok();
    let pointed = pointed.map(|commit| snapshots.join(commit.trim())).filter(|dir| dir.is_dir());
    pointed.or_else(|| match revision {
        Some(commit) => Some(snapshots.join(commit)).filter(|dir| dir.is_dir()),
        None => newest(&snapshots),
    })
}

fn newest(snapshots: &Path) -> Option<PathBuf> {
    let changed = |dir: &PathBuf| dir.metadata().and_then(|meta| meta.modified()).ok();
    children(snapshots).filter(|dir| dir.is_dir()).max_by_key(changed)
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

    fn find(hub: &HubCache, text: &str) -> Option<Snapshot> {
        hub.find(&HubId::parse(text).unwrap()).unwrap().map(|found| found.snapshot)
    }

    #[test]
    fn a_snapshot_is_found_by_full_or_short_name_in_any_case() {
        let dir = tempfile::tempdir().unwrap();
        let path =
            repo(dir.path(), "Org/My-Model", "abc", &[("config.json", "{}"), ("model.safetensors", "x")]);
        let hub = HubCache::new(dir.path());
        for name in ["Org/My-Model", "org/my-model", "my-model"] {
            assert_eq!(find(&hub, name), Some(Snapshot { path: path.clone(), missing: vec![] }), "{name}");
        }
        for name in ["Other/My-Model", "My", "Org"] {
            assert_eq!(find(&hub, name), None, "{name}");
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
        let snapshot = find(&HubCache::new(dir.path()), "o/m").unwrap();
        assert_eq!(snapshot.missing, ["m-2.safetensors", "m-3.safetensors"]);
    }

    #[test]
    fn a_complete_snapshot_is_preferred_among_organisations() {
        let dir = tempfile::tempdir().unwrap();
        repo(dir.path(), "a/m", "r", &[]);
        let whole = repo(dir.path(), "b/m", "r", &[("config.json", "{}"), ("model.safetensors", "x")]);
        assert_eq!(find(&HubCache::new(dir.path()), "m").unwrap().path, whole);
    }

    #[test]
    fn a_revision_is_a_name_or_a_commit() {
        let dir = tempfile::tempdir().unwrap();
        let files = [("config.json", "{}"), ("model.safetensors", "x")];
        let old = repo(dir.path(), "o/m", "abc", &files);
        let new = repo(dir.path(), "o/m", "def", &files);
        fs::write(dir.path().join("models--o--m/refs/v1"), "abc").unwrap();
        let hub = HubCache::new(dir.path());
        for (name, path) in [("o/m", &new), ("o/m@main", &new), ("o/m@v1", &old), ("o/m@abc", &old)] {
            assert_eq!(find(&hub, name).unwrap().path, *path, "{name}");
        }
        assert_eq!(find(&hub, "o/m@v2"), None);
    }

    #[test]
    fn gguf_files_are_chosen_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let files = [
            ("m-Q4_0.gguf", "x"),
            ("m-Q8_0-00001-of-00002.gguf", "x"),
            ("README.md", ""),
            ("config.json", "{}"),
        ];
        let path = repo(dir.path(), "o/m", "r", &files);
        let hub = HubCache::new(dir.path());
        let whole = Snapshot { path: path.join("m-Q4_0.gguf"), missing: vec![] };
        assert_eq!(find(&hub, "o/m:Q4_0"), Some(whole));
        assert_eq!(find(&hub, "o/m:q8_0").unwrap().missing, ["m-Q8_0-00002-of-00002.gguf"]);
        assert_eq!(find(&hub, "o/m:Q5_0"), None);
        assert!(matches!(hub.find(&HubId::of_repo("o/m")), Err(HubError::SeveralGguf { .. })));
        assert_eq!(hub.complete_repos(), ["o/m"]);
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
