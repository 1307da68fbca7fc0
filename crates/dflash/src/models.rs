//! `dflash models`: the known pairs, and what of them is on this machine.

use std::fmt::Write as _;
use std::io;

use serde::Serialize;

use crate::cache::{CacheDir, CachedFile, human_bytes};
use crate::draft_quant::DraftQuant;
use crate::hub::HubCache;
use crate::obtain;
use crate::registry::{DraftSource, Entry, Family, Registry, TargetSource};

/// What of a pair's weights is on this machine. An embedded draft counts for neither side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Everything: it runs without the network.
    Ready,
    /// A part.
    Cached,
    /// Nothing.
    Missing,
}

/// One known pair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ModelRow {
    /// The name to pass to `--model`.
    pub name: String,
    /// The target's file or repository.
    pub target: String,
    /// The draft's name or repository.
    pub draft: String,
    /// The structural kind of the target.
    pub family: Family,
    /// How its draft is quantised unless the user says otherwise.
    pub draft_quant: Option<DraftQuant>,
    /// Other drafts of the same target.
    pub other_drafts: Vec<String>,
    /// Whether this build runs it.
    pub supported: bool,
    /// Repositories in the hub cache that hold the target, in any variant.
    pub cached_targets: Vec<String>,
    /// What of it is on this machine.
    pub state: State,
    /// What is missing, and how it gets here.
    pub note: Option<String>,
}

/// The cache directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CacheListing {
    /// Where it is.
    pub dir: Option<String>,
    /// The sum of its files.
    pub bytes: u64,
    /// Its files.
    pub files: Vec<CachedFile>,
}

/// Everything that `dflash models` says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listing {
    /// The known pairs.
    pub models: Vec<ModelRow>,
    /// The cache directory.
    pub cache: CacheListing,
}

impl Listing {
    /// Looks at the cache and at the local hub cache.
    pub fn of(registry: &Registry, cache: Option<&CacheDir>, hub: &HubCache) -> io::Result<Self> {
        let held = hub.complete_repos();
        let models = registry.entries().iter().map(|entry| row(entry, registry, cache, &held)).collect();
        let files = cache.map_or(Ok(Vec::new()), CacheDir::files)?;
        let dir = cache.map(|cache| cache.root().to_string_lossy().into_owned());
        let bytes = files.iter().map(|file| file.bytes).sum();
        Ok(Self { models, cache: CacheListing { dir, bytes, files } })
    }

    /// The listing as a table.
    pub fn table(&self) -> String {
        let mut text = format!("{:<22}{:<47}STATE\n", "TARGET", "DRAFT");
        for row in &self.models {
            let note = row.note.as_ref().map(|note| format!("  ({note})")).unwrap_or_default();
            let _ = writeln!(text, "{:<22}{:<47}{}{note}", row.name, row.draft, row.state.label());
        }
        let _ = writeln!(text, "\n{}", self.cache.heading());
        for file in &self.cache.files {
            let _ = writeln!(text, "{:>10}  {}", human_bytes(file.bytes), file.name);
        }
        text
    }
}

impl CacheListing {
    fn heading(&self) -> String {
        match &self.dir {
            Some(dir) => format!("cache: {dir} ({})", human_bytes(self.bytes)),
            None => "cache: none; set DFLASH_CACHE".to_owned(),
        }
    }
}

impl State {
    fn label(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Cached => "cached",
            Self::Missing => "missing",
        }
    }

    fn of(parts: &[bool]) -> Self {
        match parts.iter().filter(|here| **here).count() {
            count if count == parts.len() => Self::Ready,
            0 => Self::Missing,
            _ => Self::Cached,
        }
    }
}

fn row(entry: &Entry, registry: &Registry, cache: Option<&CacheDir>, held: &[String]) -> ModelRow {
    let cached_targets = cached_targets(entry, registry, held);
    let target = wheel_is_here(entry, cache) || !cached_targets.is_empty();
    let draft = draft_is_here(entry, held);
    let state = State::of(&[Some(target), draft].into_iter().flatten().collect::<Vec<_>>());
    let obstacle = entry.obstacle();
    ModelRow {
        name: entry.name.clone(),
        target: entry.target.label().to_owned(),
        draft: entry.draft.label().to_owned(),
        family: entry.family,
        draft_quant: entry.draft_quant,
        other_drafts: entry.other_drafts.clone(),
        supported: obstacle.is_none(),
        state,
        note: obstacle.or_else(|| note(entry, target, draft.unwrap_or(true), &cached_targets)),
        cached_targets,
    }
}

fn wheel_is_here(entry: &Entry, cache: Option<&CacheDir>) -> bool {
    match &entry.target {
        TargetSource::Wheel(file) => cache.is_some_and(|cache| obtain::is_ready(cache, &entry.name, file)),
        TargetSource::Hub { .. } => false,
    }
}

/// A draft is called like its target, too.
fn cached_targets(entry: &Entry, registry: &Registry, held: &[String]) -> Vec<String> {
    let is_draft = |repo: &str| repo.to_lowercase().contains("dflash");
    let targets = held.iter().filter(|repo| !is_draft(repo) && registry.find(repo) == Some(entry));
    targets.cloned().collect()
}

/// `None` for a draft that need not be fetched.
fn draft_is_here(entry: &Entry, held: &[String]) -> Option<bool> {
    match &entry.draft {
        DraftSource::Embedded(_) => None,
        DraftSource::Hub { repo, .. } => Some(held.iter().any(|held| held.eq_ignore_ascii_case(repo))),
    }
}

fn note(entry: &Entry, target: bool, draft: bool, cached: &[String]) -> Option<String> {
    let as_what = cached.iter().find(|repo| *repo != entry.target.label());
    match (&entry.target, target, draft) {
        (_, true, true) => as_what.map(|repo| format!("as {repo}")),
        (TargetSource::Wheel(file), false, _) => {
            Some(format!("obtained at first use: {}", human_bytes(file.download_size)))
        }
        (_, false, true) => Some("target fetched at first use".to_owned()),
        (_, true, false) => Some("draft fetched at first use".to_owned()),
        (_, false, false) => Some("fetched from the Hub at first use".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states() {
        assert_eq!(State::of(&[true]), State::Ready);
        assert_eq!(State::of(&[false]), State::Missing);
        assert_eq!(State::of(&[true, true]), State::Ready);
        assert_eq!(State::of(&[true, false]), State::Cached);
        assert_eq!(State::of(&[false, true]), State::Cached);
        assert_eq!(State::of(&[false, false]), State::Missing);
    }
}
