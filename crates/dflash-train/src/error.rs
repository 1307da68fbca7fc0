use std::io;
use std::path::{Path, PathBuf};

use dflash_engine::EngineError;
use dflash_models::ModelError;
use dflash_text::TextError;

/// What can go wrong on the way to a draft.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// A file or folder cannot be read or written.
    #[error("{}: {cause}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// A file holds something else than it should.
    #[error("{}: {what}", path.display())]
    Bad {
        /// Which file or folder.
        path: PathBuf,
        /// What is wrong, and the way out.
        what: String,
    },
    /// A wish that cannot be fulfilled.
    #[error("{0}")]
    Refused(String),
    /// Somebody wished to stop.
    #[error("ended before it was done")]
    Ended,
    /// From a model's files.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// From the engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// From the graph that is trained.
    #[error("training failed: {0}")]
    Graph(Box<candle_core::Error>),
    /// From a tokenizer or chat template.
    #[error(transparent)]
    Text(#[from] TextError),
}

impl From<candle_core::Error> for TrainError {
    fn from(error: candle_core::Error) -> Self {
        Self::Graph(Box::new(error))
    }
}

impl TrainError {
    /// For `map_err` on what touches `path`.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |cause| Self::Io { path, cause }
    }

    /// `path` holds something else than it should.
    pub(crate) fn bad(path: &Path, what: impl Into<String>) -> Self {
        Self::Bad { path: path.to_owned(), what: what.into() }
    }
}
