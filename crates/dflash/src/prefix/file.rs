//! The file of a state: safetensors with `ids` (U32), and for each layer of the target and of what proposers keep the
//! numbers of its blocks (`target.0.blocks`, U32) and their bytes (`target.0.bytes`, U8). The metadata hold the version of
//! the format, what the drafts' parts are of, and the SHA-256 of all names and bytes.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use dflash_engine::Snapshot;
use dflash_tensor::{Backend, SeqCache};
use safetensors::tensor::{Dtype, Metadata, SafeTensors, View};
use sha2::{Digest, Sha256};

use crate::obtain::hex;

/// How the files are laid out.
const FORMAT: &str = "dflash prefix 1";
const IDS: &str = "ids";
const TARGET: &str = "target";
/// A header that is longer is none of ours.
const LONGEST_HEADER: u64 = 64 << 20;

/// What a file begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    /// The ids whose state it is.
    pub ids: Vec<u32>,
    /// What the drafts' parts are of; empty where there are none.
    pub draft: String,
}

impl Head {
    /// Of a state whose drafts' parts are of `draft`.
    pub fn of(snapshot: &Snapshot, draft: &str) -> Self {
        let draft = if snapshot.drafts(snapshot.len()) { draft } else { "" };
        Self { ids: snapshot.ids().to_vec(), draft: draft.to_owned() }
    }

    /// Whether a state of this serves for everything that one of `other` serves for, where states can be cut.
    pub fn covers(&self, other: &Self) -> bool {
        self.ids.starts_with(&other.ids) && (other.draft.is_empty() || self.draft == other.draft)
    }
}

/// Writes a state; `draft` says what the proposers' parts are of.
///
/// # Errors
/// The file system's.
pub(super) fn write(path: &Path, snapshot: &Snapshot, draft: &str) -> io::Result<()> {
    let parts = parts(snapshot);
    let mut hash = Sha256::new();
    parts.iter().for_each(|(name, part)| add(&mut hash, name, &part.data()));
    let draft = Head::of(snapshot, draft).draft;
    let metadata = [("format", FORMAT), ("draft", &draft), ("sha256", &hex(&hash.finalize()))];
    let metadata = metadata.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    safetensors::serialize_to_file(parts, Some(metadata), path).map_err(io::Error::other)
}

/// The head of a file, read without the rest; `None` where it is no such file.
pub(super) fn head(path: &Path) -> Option<Head> {
    let mut file = File::open(path).ok()?;
    let mut length = [0; 8];
    file.read_exact(&mut length).ok()?;
    let header = u64::from_le_bytes(length);
    let mut bytes = Vec::new();
    file.by_ref().take(header.min(LONGEST_HEADER)).read_to_end(&mut bytes).ok()?;
    let metadata: Metadata = serde_json::from_slice(&bytes).ok()?;
    let told = metadata.metadata().as_ref()?;
    let info = metadata.info(IDS).filter(|info| info.dtype == Dtype::U32)?;
    let (start, end) = info.data_offsets;
    let whole = file.metadata().ok()?.len() == 8 + header + metadata.data_len() as u64;
    if told.get("format")? != FORMAT || !whole {
        return None;
    }
    let mut ids = vec![0; end.checked_sub(start)?];
    file.seek(SeekFrom::Start(8 + header + start as u64)).ok()?;
    file.read_exact(&mut ids).ok()?;
    Some(Head { ids: numbers(&ids), draft: told.get("draft")?.clone() })
}

/// The state in a file, put together like `blank`; without the drafts' parts where these are not of `draft`. `None` where
/// it is gone, damaged, or not of this model.
pub(super) fn read(path: &Path, blank: &Snapshot, backend: &dyn Backend, draft: &str) -> Option<Snapshot> {
    let bytes = fs::read(path).ok()?;
    let (_, header) = SafeTensors::read_metadata(&bytes).ok()?;
    let told = header.metadata().as_ref().filter(|told| told.get("format").is_some_and(|it| it == FORMAT))?;
    let file = SafeTensors::deserialize(&bytes).ok()?;
    if told.get("sha256")? != &checksum(&file) {
        return None;
    }
    let ids = numbers(file.tensor(IDS).ok()?.data());
    let cache = |name: &str, like: &SeqCache| {
        let tensor = |layer: usize, what: &str| file.tensor(&format!("{name}.{layer}.{what}")).ok();
        let layers = (0..like.layers()).map_while(|layer| {
            Some((numbers(tensor(layer, "blocks")?.data()), tensor(layer, "bytes")?.data()))
        });
        like.loaded(ids.len(), layers, backend)
    };
    let target = cache(TARGET, blank.target())?;
    let alike = told.get("draft").is_some_and(|of| of == draft);
    let proposers: HashMap<&str, SeqCache> = blank
        .proposers()
        .filter(|_| alike)
        .filter_map(|(name, like)| Some((name, cache(name, like)?)))
        .collect();
    let mut proposers = proposers;
    blank.like(ids, target, |name| proposers.remove(name))
}

/// Names and tensors, in the order of the names.
fn parts(snapshot: &Snapshot) -> Vec<(String, Part<'_>)> {
    let mut parts = vec![(IDS.to_owned(), Part::new(What::Ids(snapshot.ids())))];
    let caches = std::iter::once((TARGET, snapshot.target())).chain(snapshot.proposers());
    for (name, cache) in caches {
        for layer in 0..cache.layers() {
            parts.push((format!("{name}.{layer}.blocks"), Part::new(What::Blocks(cache, layer))));
            parts.push((format!("{name}.{layer}.bytes"), Part::new(What::Bytes(cache, layer))));
        }
    }
    parts.sort_by(|(one, _), (other, _)| one.cmp(other));
    parts
}

/// A tensor, whose bytes are made when they are written.
struct Part<'a> {
    what: What<'a>,
    shape: [usize; 1],
}

enum What<'a> {
    Ids(&'a [u32]),
    Blocks(&'a SeqCache, usize),
    Bytes(&'a SeqCache, usize),
}

impl<'a> Part<'a> {
    fn new(what: What<'a>) -> Self {
        let count = match &what {
            What::Ids(ids) => ids.len(),
            What::Blocks(cache, layer) => cache.layer_size(*layer).0,
            What::Bytes(cache, layer) => cache.layer_size(*layer).1,
        };
        Self { what, shape: [count] }
    }
}

impl View for Part<'_> {
    fn dtype(&self) -> Dtype {
        if let What::Bytes(..) = self.what { Dtype::U8 } else { Dtype::U32 }
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        let little = |numbers: &[u32]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        Cow::Owned(match self.what {
            What::Ids(ids) => little(ids),
            What::Blocks(cache, layer) => little(&cache.save_layer(layer).0),
            What::Bytes(cache, layer) => cache.save_layer(layer).1,
        })
    }

    fn data_len(&self) -> usize {
        let size = if let What::Bytes(..) = self.what { 1 } else { 4 };
        size * self.shape[0]
    }
}

fn checksum(file: &SafeTensors<'_>) -> String {
    let mut names = file.names();
    names.sort_unstable();
    let mut hash = Sha256::new();
    for name in names {
        if let Ok(view) = file.tensor(name) {
            add(&mut hash, name, view.data());
        }
    }
    hex(&hash.finalize())
}

fn add(hash: &mut Sha256, name: &str, bytes: &[u8]) {
    hash.update(name);
    hash.update((bytes.len() as u64).to_le_bytes());
    hash.update(bytes);
}

fn numbers(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect()
}
