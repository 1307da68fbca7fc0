use std::fs::{File, Metadata};
use std::ops::Range;
use std::path::{Path, PathBuf};

use memmap2::Mmap;

use crate::ModelError;

/// Metadata of a regular file. To be asked before a file is opened: opening a pipe waits for its writer.
///
/// # Errors
/// [`ModelError::Io`] or [`ModelError::NotAFile`].
pub(crate) fn regular(path: &Path) -> Result<Metadata, ModelError> {
    let metadata =
        std::fs::metadata(path).map_err(|source| ModelError::Io { path: path.to_owned(), source })?;
    if metadata.is_file() { Ok(metadata) } else { Err(ModelError::NotAFile { path: path.to_owned() }) }
}

/// A file mapped into memory, read only.
pub(crate) struct Map {
    path: PathBuf,
    map: Mmap,
}

impl Map {
    /// Maps a regular file.
    ///
    /// # Errors
    /// As [`regular`].
    pub(crate) fn open(path: &Path) -> Result<Self, ModelError> {
        regular(path)?;
        let io = |source| ModelError::Io { path: path.to_owned(), source };
        let file = File::open(path).map_err(io)?;
        // SAFETY: the mapping is private to this value and only read. Like every program that maps
        // weights we rely on nobody truncating or rewriting a checkpoint while it is open.
        let map = unsafe { Mmap::map(&file) }.map_err(io)?;
        Ok(Self { path: path.to_owned(), map })
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// Tells the system that the pages of `range` are no longer needed; touching them again reads the
    /// file again. Only advice: a failure changes nothing.
    pub(crate) fn release(&self, range: Range<usize>) {
        #[cfg(unix)]
        if !range.is_empty() && range.end <= self.map.len() {
            // SAFETY: the mapping is read only and backed by a file, so dropped pages come back from
            // the file with the same bytes; borrowed slices stay valid.
            let _ = unsafe {
                self.map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, range.start, range.len())
            };
        }
        #[cfg(not(unix))]
        let _ = range;
    }
}
