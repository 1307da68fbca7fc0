//! The draft of the default pair, which is part of this binary.
//!
//! It is unpacked into the cache at first use instead of being read from the executable's own memory:
//! so it goes through the same mapped loader as every other checkpoint, its pages can be dropped and
//! shared between processes like theirs, and there is one code path to test.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::cache::CacheDir;
use crate::obtain::hex;
use crate::report::{Failure, Outcome};

/// A draft inside the binary, as the registry describes it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct EmbeddedDraft {
    /// Its name, which is its folder in the cache.
    pub name: String,
    /// Its files.
    pub files: Vec<EmbeddedFile>,
}

/// One file of it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct EmbeddedFile {
    /// The file's name.
    pub name: String,
    /// Its SHA-256. Written down, because hashing at every start would take longer than loading.
    pub sha256: String,
}

/// The time that unpacked files carry.
const UNPACKED: SystemTime = SystemTime::UNIX_EPOCH;

macro_rules! draft_file {
    ($draft:literal, $name:literal) => {
        (
            $draft,
            $name,
            include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/", $draft, "/", $name))
                as &[u8],
        )
    };
}

static FILES: &[(&str, &str, &[u8])] = &[
    draft_file!("smollm2-135m-dflash", "config.json"),
    draft_file!("smollm2-135m-dflash", "model.safetensors"),
];

impl EmbeddedDraft {
    /// The folder with the draft's files, after unpacking them if need be.
    pub fn unpack(&self, cache: &CacheDir) -> Outcome<PathBuf> {
        let dir = self.dir(cache);
        if self.is_unpacked(&dir) {
            return Ok(dir);
        }
        self.write(&dir).map_err(|error| {
            Failure::new(format!("cannot unpack the draft {} to {}", self.name, dir.display()))
                .cause(error)
                .hint("set DFLASH_CACHE to a directory that can be written, or pass --draft PATH")
        })?;
        Ok(dir)
    }

    /// Every version has a folder of its own: an older binary beside this one keeps its draft.
    fn dir(&self, cache: &CacheDir) -> PathBuf {
        let mut hash = Sha256::new();
        for file in &self.files {
            hash.update(format!("{} {}\n", file.sha256, file.name));
        }
        cache.root().join(&self.name).join(&hex(&hash.finalize())[..16])
    }

    /// The folder appears whole by a rename. Sizes and times cost nothing to compare, and whoever changes a
    /// file changes its time.
    fn is_unpacked(&self, dir: &Path) -> bool {
        self.contents().all(|(name, bytes)| {
            let found = dir.join(name).metadata();
            found.is_ok_and(|meta| {
                meta.len() == bytes.len() as u64 && meta.modified().is_ok_and(|at| at == UNPACKED)
            })
        })
    }

    fn contents(&self) -> impl Iterator<Item = (&'static str, &'static [u8])> {
        FILES.iter().filter(|(draft, ..)| *draft == self.name).map(|(_, name, bytes)| (*name, *bytes))
    }

    fn write(&self, dir: &Path) -> io::Result<()> {
        let parent = dir.parent().unwrap_or(dir);
        fs::create_dir_all(parent)?;
        let work = tempfile::Builder::new().prefix(".tmp-").tempdir_in(parent)?;
        let whole = work.path().join("draft");
        fs::create_dir(&whole)?;
        for (name, bytes) in self.contents() {
            let mut file = File::create_new(whole.join(name))?;
            file.write_all(bytes)?;
            file.set_modified(UNPACKED)?;
            file.sync_all()?;
        }
        self.put(&whole, dir, work.path())
    }

    /// A damaged folder is moved aside first: a rename does not replace one that has files. When
    /// another process was faster, its folder is as good.
    fn put(&self, whole: &Path, dir: &Path, work: &Path) -> io::Result<()> {
        if dir.exists() && !self.is_unpacked(dir) {
            fs::rename(dir, work.join("damaged"))?;
        }
        match fs::rename(whole, dir) {
            Err(_) if self.is_unpacked(dir) => Ok(()),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{DraftSource, Registry};

    fn embedded() -> impl Iterator<Item = &'static EmbeddedDraft> {
        Registry::built_in().entries().iter().filter_map(|entry| match &entry.draft {
            DraftSource::Embedded(draft) => Some(draft),
            DraftSource::Hub { .. } => None,
        })
    }

    #[test]
    fn the_registry_describes_the_embedded_bytes() {
        for draft in embedded() {
            let contents: Vec<_> = draft.contents().collect();
            let names: Vec<_> = draft.files.iter().map(|file| file.name.as_str()).collect();
            assert_eq!(contents.iter().map(|(name, _)| *name).collect::<Vec<_>>(), names);
            for (file, (_, bytes)) in draft.files.iter().zip(contents) {
                assert_eq!(hex(&Sha256::digest(bytes)), file.sha256, "registry.json: {}", file.name);
            }
        }
    }

    #[test]
    fn unpacking_happens_once_and_heals_a_damaged_folder() {
        let cache = tempfile::tempdir().unwrap();
        let cache = CacheDir::new(cache.path());
        let draft = embedded().next().unwrap();
        let dir = draft.unpack(&cache).unwrap();
        let weights = dir.join("model.safetensors");
        let first = weights.metadata().unwrap().modified().unwrap();
        assert_eq!(draft.unpack(&cache).unwrap(), dir);
        assert_eq!(weights.metadata().unwrap().modified().unwrap(), first);
        for damaged in [b"short".to_vec(), vec![0; weights.metadata().unwrap().len() as usize]] {
            fs::write(&weights, damaged).unwrap();
            draft.unpack(&cache).unwrap();
            assert!(draft.is_unpacked(&dir));
            assert_eq!(fs::read(&weights).unwrap(), draft.contents().last().unwrap().1);
        }
        let left: Vec<_> = fs::read_dir(dir.parent().unwrap()).unwrap().flatten().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn a_cache_that_cannot_be_written_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let failure = embedded().next().unwrap().unpack(&CacheDir::new(file.path())).unwrap_err();
        assert!(failure.message().contains(&file.path().display().to_string()), "{failure}");
        assert!(failure.hints()[0].contains("DFLASH_CACHE"));
    }
}
