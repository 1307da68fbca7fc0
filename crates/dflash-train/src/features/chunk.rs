use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use half::f16;
use sha2::{Digest, Sha256};

use super::context;
use crate::hex::hex;
use crate::{Sequence, TrainError};

/// What the file of a chunk begins with.
const MAGIC: &[u8; 16] = b"dflash features\x01";
/// Bytes of a SHA-256.
const HASH: usize = 32;
/// How the names of its files end.
pub const EXTENSION: &str = "features";

/// The rows of consecutive sequences in one file: the magic, the key, a hash of the rows of each sequence, then these
/// rows in f16.
pub struct Chunk {
    path: PathBuf,
    /// Hash of all that the rows depend on.
    key: [u8; HASH],
    /// Number of its first sequence.
    first: usize,
    /// Where the rows of each sequence begin, and at last where they end.
    starts: Vec<usize>,
    width: usize,
}

impl Chunk {
    /// The chunk of `sequences`, the first of which has the number `first`. `print` stands for target and taps.
    pub fn new(
        folder: &Path,
        print: &[u8; HASH],
        first: usize,
        sequences: &[Sequence],
        width: usize,
    ) -> Self {
        let (mut hash, mut starts) = (Sha256::new_with_prefix(print), vec![0]);
        for sequence in sequences {
            let ids = context(sequence);
            hash.update((ids.len() as u64).to_le_bytes());
            hash.update(bytemuck::cast_slice(ids));
            starts.push(starts[starts.len() - 1] + ids.len());
        }
        let key: [u8; HASH] = hash.finalize().into();
        let name = hex(&key[..12]);
        Self { path: folder.join(format!("{name}.{EXTENSION}")), key, first, starts, width }
    }

    /// Numbers of its sequences.
    pub fn sequences(&self) -> Range<usize> {
        self.first..self.first + self.starts.len() - 1
    }

    /// Rows of all its sequences.
    pub fn rows(&self) -> usize {
        self.starts[self.starts.len() - 1]
    }

    /// Numbers of all its rows.
    pub fn halves(&self) -> usize {
        self.rows() * self.width
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of its file.
    pub fn bytes(&self) -> u64 {
        self.place(self.rows())
    }

    /// Where a row stands in the file.
    fn place(&self, row: usize) -> u64 {
        (MAGIC.len() + HASH * self.starts.len() + row * self.width * size_of::<f16>()) as u64
    }

    /// Whether its file is whole, as far as can be told without reading it.
    pub fn is_there(&self) -> bool {
        let begins = || -> io::Result<bool> {
            let mut file = File::open(&self.path)?;
            let mut head = [0; MAGIC.len() + HASH];
            file.read_exact(&mut head)?;
            let right = head[..MAGIC.len()] == *MAGIC && head[MAGIC.len()..] == self.key;
            Ok(right && file.metadata()?.len() == self.bytes())
        };
        begins().unwrap_or(false)
    }

    /// Writes the file, whole or not at all.
    ///
    /// # Errors
    /// The system's; a full disk says what to do.
    pub fn write(&self, rows: &[f16]) -> Result<(), TrainError> {
        let (folder, partial) =
            (self.path.parent().unwrap_or(Path::new(".")), self.path.with_extension("partial"));
        let write = || -> io::Result<()> {
            // It may have vanished in the meantime.
            fs::create_dir_all(folder)?;
            let mut file = File::create(&partial)?;
            file.write_all(MAGIC)?;
            file.write_all(&self.key)?;
            for ends in self.starts.windows(2) {
                let rows = &rows[ends[0] * self.width..ends[1] * self.width];
                file.write_all(&Sha256::digest(bytemuck::cast_slice::<f16, u8>(rows)))?;
            }
            file.write_all(bytemuck::cast_slice(rows))?;
            fs::rename(&partial, &self.path)
        };
        let written = write();
        if written.is_err() {
            // What is there of it takes room that may be lacking.
            let _ = fs::remove_file(&partial);
        }
        written.map_err(|source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => TrainError::bad(
                folder,
                format!(
                    "the disk is full, and another {} MB of features belong here; free room, name another folder, or \
                     go without a cache",
                    self.bytes().div_ceil(1_000_000)
                ),
            ),
            _ => TrainError::io(&self.path)(source),
        })
    }

    /// The rows of a sequence; `None` where the file is gone or damaged, which is then removed, so that it is made anew
    /// when features are opened the next time.
    pub fn read(&self, sequence: usize) -> Option<Vec<f16>> {
        let read = self.read_checked(sequence - self.first);
        if matches!(&read, Ok(None)) || read.is_err() && self.path.exists() {
            // If it cannot be removed, its rows are computed once more the next time.
            let _ = fs::remove_file(&self.path);
        }
        read.ok().flatten()
    }

    fn read_checked(&self, index: usize) -> io::Result<Option<Vec<f16>>> {
        let (begin, end) = (self.starts[index], self.starts[index + 1]);
        let mut file = File::open(&self.path)?;
        let (mut key, mut hash) = ([0; HASH], [0; HASH]);
        file.seek(SeekFrom::Start(MAGIC.len() as u64))?;
        file.read_exact(&mut key)?;
        file.seek(SeekFrom::Start((MAGIC.len() + HASH * (index + 1)) as u64))?;
        file.read_exact(&mut hash)?;
        let mut rows = vec![f16::ZERO; (end - begin) * self.width];
        file.seek(SeekFrom::Start(self.place(begin)))?;
        file.read_exact(bytemuck::cast_slice_mut(&mut rows))?;
        let right = key == self.key && Sha256::digest(bytemuck::cast_slice::<f16, u8>(&rows))[..] == hash;
        Ok(right.then_some(rows))
    }
}
