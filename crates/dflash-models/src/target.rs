use std::path::{Path, PathBuf};
use std::sync::Arc;

use dflash_tensor::{Backend, BackendError, Batch, Choice, SeqCache, Tensor, Weight};

use crate::families::{self, Family};
use crate::gguf::Gguf;
use crate::hf::HfDir;
use crate::loader::LoadContext;
use crate::text::GgufVocabulary;
use crate::{DenseLayer, ModelError, Taps, TextAssets, Workspace};

/// Facts of a target that its users need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetSpec {
    /// Structural kind, such as `llama`.
    pub family: &'static str,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Decoder layers.
    pub layers: usize,
    /// Valid token ids are below this; embedding and head may have padding rows beyond.
    pub vocab: usize,
    /// Positions the model was made for.
    pub context: usize,
    /// Ids that end a generation by the checkpoint's own word, without repetition.
    pub stop_ids: Vec<u32>,
}

/// The model whose output is reproduced. Immutable after load; all state is in the caches.
pub trait Target: Send + Sync {
    /// Facts.
    fn spec(&self) -> &TargetSpec;

    /// Lowers the number of valid ids to that of the tokenizer, so that padding rows never win.
    ///
    /// # Panics
    /// When `vocab` is zero or more than the ids of the checkpoint.
    fn limit_vocab(&mut self, vocab: usize);

    /// An empty cache for one sequence.
    fn new_cache(&self) -> SeqCache;

    /// Scratch for [`Target::forward`], one per thread of work.
    fn workspace(&self) -> Workspace;

    /// Runs the rows of `batch`; span `i` belongs to `caches[i]`. The caller has begun a pass on the caches
    /// and settles it afterwards. `taps`, if any, holds the rows of this pass afterwards.
    fn forward(
        &self,
        ws: &mut Workspace,
        batch: &Batch,
        caches: &mut [&mut SeqCache],
        taps: Option<&mut Taps>,
    );

    /// The choices at `rows` of the last pass, in that order; appends to `out`.
    ///
    /// # Errors
    /// A NaN logit or a device error.
    fn choose(&self, ws: &Workspace, rows: &[usize], out: &mut Vec<Choice>) -> Result<(), BackendError>;

    /// The logits at `rows` of the last pass: `[rows.len(), rows of the head]`. Columns from
    /// [`TargetSpec::vocab`] on are padding.
    fn logits(&self, ws: &Workspace, rows: &[usize], out: &mut Tensor);

    /// The embedding, `[padded vocabulary, hidden]`.
    fn embedding(&self) -> &Arc<Weight>;

    /// The head, `[padded vocabulary, hidden]`; the same weight as the embedding when tied.
    fn head(&self) -> &Arc<Weight>;

    /// Multiplies embeddings, the draft's own use of the embedding included.
    fn embedding_scale(&self) -> f32 {
        1.0
    }

    /// `cap` of the logits `cap * tanh(l / cap)` of the head, the draft's own use of it included.
    fn softcap(&self) -> Option<f32> {
        None
    }

    /// The numbers of layer `index`, where it is one of grouped-query attention and a gated MLP.
    fn dense_layer(&self, _index: usize) -> Option<DenseLayer> {
        None
    }

    /// Gain of the norm before the head, where the head has one of RMS.
    fn final_norm(&self) -> Option<Vec<f32>> {
        None
    }

    /// Where it was loaded.
    fn backend(&self) -> &Arc<dyn Backend>;
}

/// A target with what came along.
pub struct LoadedTarget {
    /// The model.
    pub target: Box<dyn Target>,
    /// What the file itself calls the model (`general.name` of GGUF).
    pub name: Option<String>,
    /// Where its tokenizer is found.
    pub text: TextAssets,
    /// What a user may want to know, such as tensors that were skipped.
    pub notes: Vec<String>,
    /// Bytes of the packed weights.
    pub weight_bytes: u64,
}

/// The files of a target, opened but not loaded: their family and text assets are known.
pub struct TargetFiles {
    source: Source,
    family: &'static Family,
    name: Option<String>,
}

/// A directory in HF layout, or a GGUF model.
enum Source {
    Hf(HfDir, PathBuf),
    Gguf(Gguf, Box<GgufVocabulary>),
}

impl TargetFiles {
    /// Opens a GGUF file or a directory in HF layout and reads what is not a weight.
    ///
    /// # Errors
    /// What is no target, or of no supported family.
    pub fn open(path: &Path) -> Result<Self, ModelError> {
        if path.is_dir() { Self::open_dir(path) } else { Self::open_gguf(path) }
    }

    fn open_dir(path: &Path) -> Result<Self, ModelError> {
        let dir = HfDir::open(path)?;
        let config = dir.config.keys()?;
        if let Some(kind) = crate::draft::kind_of(&config)? {
            return Err(ModelError::DraftAsTarget { path: path.to_owned(), kind });
        }
        let model_type = config.text("model_type")?.ok_or_else(|| config.missing("model_type"))?;
        let family = families::of_model_type(config.path(), model_type)?;
        Ok(Self { source: Source::Hf(dir, path.to_owned()), family, name: None })
    }

    fn open_gguf(path: &Path) -> Result<Self, ModelError> {
        refuse_other_files(path)?;
        let gguf = Gguf::open(path)?;
        let metadata = &gguf.metadata;
        let architecture = "general.architecture";
        let arch = metadata.text(architecture)?.ok_or_else(|| metadata.missing(architecture))?;
        if crate::draft::is_draft_arch(arch) {
            let kind = format!("GGUF architecture {arch}");
            return Err(ModelError::DraftAsTarget { path: path.to_owned(), kind });
        }
        let family = families::of_arch(path, arch)?;
        let vocabulary = Box::new(GgufVocabulary::read(metadata)?);
        let name = metadata.text("general.name")?.map(str::to_owned);
        Ok(Self { source: Source::Gguf(gguf, vocabulary), family, name })
    }

    /// Where the tokenizer is found.
    pub fn text(&self) -> TextAssets {
        match &self.source {
            Source::Hf(_, dir) => TextAssets::Hf { dir: dir.clone() },
            Source::Gguf(_, vocabulary) => TextAssets::Gguf(vocabulary.clone()),
        }
    }

    /// Loads the weights. `progress` is called with bytes done and bytes in all.
    ///
    /// # Errors
    /// Whatever [`ModelError`] names; nothing is loaded in part.
    pub fn load(
        self,
        backend: Arc<dyn Backend>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<LoadedTarget, ModelError> {
        let mut context = LoadContext { backend, progress, notes: Vec::new(), packed: 0 };
        let text = self.text();
        let target = match self.source {
            Source::Hf(dir, _) => (self.family.hf)(&dir, &mut context)?,
            Source::Gguf(gguf, vocabulary) => (self.family.gguf)(gguf, &vocabulary, &mut context)?,
        };
        let (notes, weight_bytes) = (context.notes, context.packed);
        Ok(LoadedTarget { target, name: self.name, text, notes, weight_bytes })
    }
}

/// Loads a target from a GGUF file or a directory in HF layout.
///
/// # Errors
/// Those of [`TargetFiles::open`] and [`TargetFiles::load`].
pub fn load_target(
    path: &Path,
    backend: Arc<dyn Backend>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<LoadedTarget, ModelError> {
    TargetFiles::open(path)?.load(backend, progress)
}

/// Fails on what is no GGUF file at first sight.
///
/// # Errors
/// [`ModelError::NotACheckpoint`].
pub(crate) fn refuse_other_files(path: &Path) -> Result<(), ModelError> {
    let not = |why: &str| ModelError::NotACheckpoint { path: path.to_owned(), why: why.into() };
    if !path.exists() {
        return Err(not("there is no such file or directory"));
    }
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("safetensors" | "json") => Err(not("give the directory that holds it and its config.json")),
        _ => Ok(()),
    }
}
