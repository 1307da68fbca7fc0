//! Models and datasets of the Hugging Face Hub: found in the cache that its own tools share, else downloaded into it.
//!
//! Nothing here opens a socket for what the cache has, nor when [`HubSettings::offline`] is set.

mod blob;
mod cache;
mod client;
mod digest;
mod download;
mod error;
mod gguf;
mod id;
mod listing;
mod lock;
mod place;
mod settings;
mod snapshot;

use std::path::{Path, PathBuf};

use crate::progress::Progress;
use crate::report::Outcome;

pub use cache::{Found, HubCache, repo_id};
pub use error::HubError;
pub use id::{HubId, RepoKind};
pub use settings::{HubSettings, Patience, Token};
pub use snapshot::Snapshot;

use download::Download;

/// The Hub and its cache on this machine.
#[derive(Debug, Clone)]
pub struct Hub {
    /// How it is reached.
    pub settings: HubSettings,
    /// Where progress is shown.
    pub progress: Progress,
}

/// What a model is fetched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// With its tokenizer and chat template.
    Target,
    /// Config and weights.
    Draft,
}

impl Hub {
    /// Downloads what is needed of `id` and not here yet; the path that a loader opens. `accept` looks at the
    /// model's `config.json` before anything large is fetched. Whatever interrupts it, the next call goes on
    /// where this one stopped.
    ///
    /// # Errors
    /// Whatever [`HubError`] names.
    pub fn fetch(
        &self,
        id: &HubId,
        role: Role,
        accept: &dyn Fn(&Path) -> Outcome<()>,
    ) -> Result<PathBuf, HubError> {
        if self.settings.offline {
            return Err(self.offline(id));
        }
        Download::begin(self, id)?.run(role, accept)
    }

    /// The file called `name` of a repository: as the cache has it, else downloaded.
    ///
    /// # Errors
    /// Whatever [`HubError`] names.
    pub fn fetch_file(&self, id: &HubId, name: &str) -> Result<PathBuf, HubError> {
        match self.settings.cache.file(id, name) {
            Some(path) => Ok(path),
            None if self.settings.offline => Err(self.offline(id)),
            None => Download::begin(self, id)?.file(name),
        }
    }

    /// Why `id` cannot be had without the network.
    fn offline(&self, id: &HubId) -> HubError {
        match self.settings.cache.repo_dir(id) {
            Some(expected) => HubError::Offline { expected },
            None => HubError::NoCacheDir,
        }
    }
}
