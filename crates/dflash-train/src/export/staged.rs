use std::ffi::OsStr;
use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::json::{CONFIG, MADE_BY};
use crate::TrainError;

/// The weights of the safetensors layouts.
pub(super) const WEIGHTS: &str = "model.safetensors";
/// A draft in GGUF.
pub(super) const GGUF: &str = "model.gguf";
/// A model card, which someone may have put beside an exported draft.
const CARD: &str = "README.md";

/// What may happen to a folder that is there already. An empty one is always filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// Nothing.
    Keep,
    /// It is replaced, if it holds nothing but a draft that this crate has written.
    ReplaceDraft,
}

/// A folder in the making: it takes its place when it is whole.
#[derive(Debug)]
pub struct Staged {
    dir: PathBuf,
    existing: Existing,
    temp: TempDir,
}

impl Staged {
    /// An empty folder beside `dir`, which is to become it.
    ///
    /// # Errors
    /// [`TrainError::Bad`] when `dir` holds something that may not be replaced, [`TrainError::Io`].
    pub fn new(dir: &Path, existing: Existing) -> Result<Self, TrainError> {
        may_be_written(dir, existing)?;
        let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::create_dir_all(parent).map_err(TrainError::io(parent))?;
        let temp = tempfile::Builder::new().prefix(".dflash-").tempdir_in(parent);
        let temp = temp.map_err(TrainError::io(parent))?;
        let staged = Self { dir: dir.to_owned(), existing, temp };
        // Not the temporary folder itself, which only its owner may enter.
        fs::create_dir(staged.path()).map_err(TrainError::io(&staged.path()))?;
        Ok(staged)
    }

    /// Where to write.
    pub fn path(&self) -> PathBuf {
        self.temp.path().join("new")
    }

    /// Puts the folder in its place. What was there before goes back when that fails.
    ///
    /// # Errors
    /// As [`Staged::new`].
    pub fn commit(self) -> Result<(), TrainError> {
        may_be_written(&self.dir, self.existing)?;
        let old = self.temp.path().join("old");
        let replaces = self.dir.exists();
        if replaces {
            fs::rename(&self.dir, &old).map_err(TrainError::io(&self.dir))?;
        }
        fs::rename(self.path(), &self.dir).map_err(|error| {
            if replaces {
                let _ = fs::rename(&old, &self.dir);
            }
            TrainError::io(&self.dir)(error)
        })
    }
}

fn may_be_written(dir: &Path, existing: Existing) -> Result<(), TrainError> {
    if dir.file_name().is_none() {
        return Err(TrainError::bad(dir, "give the name of a new folder"));
    }
    let names = match fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => {
            entries.and_then(|all| all.map(|entry| Ok(entry?.file_name())).collect::<Result<Vec<_>, _>>())
        }
    };
    let names = names.map_err(TrainError::io(dir))?;
    match existing {
        _ if names.is_empty() => Ok(()),
        Existing::ReplaceDraft if is_ours(dir, &names) => Ok(()),
        Existing::ReplaceDraft => Err(TrainError::bad(
            dir,
            "it holds other things than a draft written by this program; give another folder",
        )),
        Existing::Keep => Err(TrainError::bad(dir, "the folder is not empty; give another one")),
    }
}

/// Whether a folder holds a draft that was written here, and nothing else.
fn is_ours(dir: &Path, names: &[impl AsRef<OsStr>]) -> bool {
    let known = |name: &&OsStr| [CONFIG, WEIGHTS, GGUF, CARD].iter().any(|known| known == name);
    let made_here = |name: &OsStr| match name {
        name if name == CONFIG || name == GGUF => says_so(&dir.join(name)),
        _ => false,
    };
    let mut names = names.iter().map(AsRef::as_ref);
    names.clone().all(|name| known(&name)) && names.any(made_here)
}

/// Whether the beginning of a file says that it was made here.
fn says_so(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(4096).read_to_end(&mut start));
    read.is_ok() && start.windows(MADE_BY.len()).any(|bytes| bytes == MADE_BY.as_bytes())
}
