use std::path::{Path, PathBuf};

use crate::ModelError;
use crate::checkpoint::Checkpoint;
use crate::json::Document;
use crate::quantization::Quantization;
use crate::text::union;

/// A checkpoint directory in HF layout whose config has been read.
pub(crate) struct HfDir {
    path: PathBuf,
    /// `config.json`.
    pub(crate) config: Document,
    generation: Option<Document>,
}

impl HfDir {
    /// Reads the configs of a directory, no weights.
    ///
    /// # Errors
    /// [`ModelError::NotACheckpoint`] without `config.json`, or a file that does not parse.
    pub(crate) fn open(path: &Path) -> Result<Self, ModelError> {
        let config = Document::open_optional(&path.join("config.json"))?;
        let config = config.ok_or_else(|| Self::without_config(path))?;
        let generation = Document::open_optional(&path.join("generation_config.json"))?;
        Ok(Self { path: path.to_owned(), config, generation })
    }

    fn without_config(path: &Path) -> ModelError {
        let gguf = std::fs::read_dir(path).is_ok_and(|mut entries| {
            entries
                .any(|entry| entry.is_ok_and(|entry| entry.path().extension().is_some_and(|e| e == "gguf")))
        });
        let why = match gguf {
            true => "it has no config.json; it holds GGUF files, give the path of one of them",
            false => "it has no config.json",
        };
        ModelError::NotACheckpoint { path: path.to_owned(), why: why.into() }
    }

    /// Opens the weights; `canonical` gives tensors and modules the names that the family uses.
    ///
    /// # Errors
    /// Anything wrong with files or quantisation settings.
    pub(crate) fn checkpoint(&self, canonical: impl Fn(&str) -> String) -> Result<Checkpoint, ModelError> {
        Checkpoint::open_dir(&self.path, Quantization::read(&self.config.keys()?)?, canonical)
    }

    /// Ids that end a generation: those of the generation config, of the config and of the text model in it
    /// together.
    ///
    /// # Errors
    /// [`ModelError::BadValue`] for anything but ids.
    pub(crate) fn stop_ids(&self) -> Result<Vec<u32>, ModelError> {
        let mut ids = Vec::new();
        for document in self.generation.iter().chain([&self.config]) {
            let keys = document.keys()?;
            let text = keys.object("text_config")?;
            for keys in [keys].iter().chain(&text) {
                ids.extend(keys.ids("eos_token_id")?.unwrap_or_default());
            }
        }
        Ok(union(ids))
    }
}
