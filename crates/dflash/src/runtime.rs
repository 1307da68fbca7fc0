//! A loaded pair, ready to decode: the façade over models, engine and text.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use dflash_cpu::CpuBackend;
use dflash_engine::proposer::{BlockDiffusion, ContextCopy, Grammar};
use dflash_engine::{
    Decoder, DecoderOptions, EngineHandle, EngineOptions, Proposer, VerifyMode as EngineMode,
};
use dflash_models::{
    Draft as DraftModel, DraftOptions, DraftSpec, LoadedTarget, ModelError, Target, TargetFiles, TargetSpec,
};
use serde::Serialize;

use crate::cores::cores;
use crate::costs;
use crate::draft_quant::{DraftQuant, DraftQuantSource};
use crate::env::Environment;
use crate::experience;
use crate::options::{Options, VerifyMode};
use crate::pair::{Draft, DraftChoice, Locator, PairChoice, Target as Located};
use crate::prefix::PrefixChoice;
use crate::progress::Progress;
use crate::registry::Registry;
use crate::report::{Failure, FailureKind, Outcome, say};
use crate::setting::Origin;
use crate::text::TextPipeline;

/// Rows of a block where no draft says otherwise.
const DEFAULT_BLOCK: usize = 16;
/// One request at a time, and a few that wait behind it.
const ALONE: EngineOptions = EngineOptions { max_batch: 1, waiting: 4, step_rows: None, prefix: None };

/// What was loaded.
#[derive(Debug, Clone)]
pub struct PairInfo {
    /// The target's file or directory.
    pub target_path: PathBuf,
    /// What the target may be called, the best name first.
    pub called: Vec<String>,
    /// What drafts.
    pub draft: DraftInfo,
    /// Why it is not the paired draft, where that was wished for and cannot be had.
    pub fallback: Option<String>,
    /// Facts of the target.
    pub target: TargetSpec,
    /// Name of the backend.
    pub backend: String,
    /// Bytes of all packed weights, target and draft.
    pub weight_bytes: u64,
    /// Bytes of the target's K/V cache per position.
    pub cache_bytes_per_position: u64,
    /// Bytes that recurrent layers hold for a sequence, however long it is.
    pub state_bytes: u64,
    /// What the loader passed over.
    pub notes: Vec<String>,
}

/// What drafts.
#[derive(Debug, Clone)]
pub enum DraftInfo {
    /// Nothing.
    None,
    /// Context copy.
    Ngram,
    /// A draft model, with context copy beside it.
    Model {
        /// Its directory or file.
        path: PathBuf,
        /// Facts.
        spec: DraftSpec,
        /// How its weights were quantised at load, and who asked.
        quant: (DraftQuant, DraftQuantSource),
    },
}

/// A pair in memory whose engine does not run.
pub struct Loaded {
    /// Target and proposers.
    pub decoder: Decoder,
    /// What computes them.
    pub backend: Arc<CpuBackend>,
    /// What was loaded.
    pub info: PairInfo,
    /// Tokenizer and template.
    pub text: TextPipeline,
    /// Every id that ends an answer, by any of the model's files.
    pub stop_ids: Vec<u32>,
}

/// A pair that decodes.
pub struct Runtime {
    engine: EngineHandle,
    text: TextPipeline,
    stop_ids: Vec<u32>,
    info: PairInfo,
    experience: experience::Kept,
}

/// What a [`Runtime`] is made of.
pub struct RuntimeParts {
    /// The engine.
    pub engine: EngineHandle,
    /// Tokenizer and template.
    pub text: TextPipeline,
    /// Every id that ends an answer.
    pub stop_ids: Vec<u32>,
    /// What was loaded.
    pub info: PairInfo,
    /// Writes down what was accepted when it is dropped.
    pub experience: experience::Kept,
}

/// The backend that the options ask for.
pub fn backend(options: &Options) -> CpuBackend {
    let threads = options.threads.value.unwrap_or_else(|| cores().physical);
    CpuBackend::new(threads, dflash_cpu::Isa::detect())
}

impl Loaded {
    /// Finds, fetches and loads a pair.
    ///
    /// # Errors
    /// With a hint each: models that cannot be found or fetched, damaged files, halves that do not match.
    pub fn open(
        choice: &PairChoice,
        options: &Options,
        env: &Environment,
        progress: Progress,
    ) -> Outcome<Self> {
        let locator = Locator { registry: Registry::built_in(), options, env, progress };
        let located = locator.target(choice)?;
        let backend: Arc<CpuBackend> = Arc::new(backend(options));
        let files = TargetFiles::open(&located.path).map_err(|error| target_failure(&error))?;
        // Before the weights: nobody wants to learn after a long load that there is no tokenizer.
        let text = TextPipeline::open(&files.text())?;
        let mut loaded = load_with_progress(files, &backend, progress)?;
        let vocab = text.tokenizer().vocab_len().min(loaded.target.spec().vocab);
        if vocab == 0 {
            return Err(Failure::new("the model's vocabulary has no token in use")
                .hint("its tokenizer is not that of a whole model; fetch the model again"));
        }
        loaded.target.limit_vocab(vocab);
        let found = locator.draft(choice, &located, loaded.name.as_deref());
        let open = |found: &Draft| open_draft(found, loaded.target.as_ref(), options);
        let (draft, proposers, fallback) = match found.and_then(|found| open(&found)) {
            Ok((draft, proposers)) => (draft, proposers, None),
            Err(failure)
                if choice.draft == DraftChoice::Auto && failure.kind() != FailureKind::Interrupted =>
            {
                let (draft, proposers) = open(&Draft::Ngram)?;
                (draft, proposers, Some(failure.message().to_owned()))
            }
            Err(failure) => return Err(failure),
        };
        let stop_ids = stop_ids(loaded.target.spec(), &text);
        let info = PairInfo { fallback, ..info(&located, &loaded, draft, &backend) };
        let decoder = decoder(loaded.target, proposers, &info, options);
        Ok(Self { decoder, backend, info, text, stop_ids })
    }
}

impl Runtime {
    /// Finds, fetches and loads a pair, learns what its steps cost and starts its engine.
    ///
    /// # Errors
    /// As [`Loaded::open`], and a draft that cannot be run.
    pub fn open(
        choice: &PairChoice,
        options: &Options,
        env: &Environment,
        progress: Progress,
    ) -> Outcome<Self> {
        Self::open_for(choice, options, ALONE, None, env, progress)
    }

    /// As [`Runtime::open`], for more than one request at a time, which may go on from what others left behind.
    ///
    /// # Errors
    /// As [`Runtime::open`].
    pub fn open_for(
        choice: &PairChoice,
        options: &Options,
        engine: EngineOptions,
        prefix: Option<&PrefixChoice>,
        env: &Environment,
        progress: Progress,
    ) -> Outcome<Self> {
        let Loaded { mut decoder, info, text, stop_ids, .. } = Loaded::open(choice, options, env, progress)?;
        if let Some(why) = &info.fallback {
            say(format!("warning: only copying from the context drafts: {why}"));
        }
        let by_costs = matches!(decoder.options().mode, EngineMode::Adaptive | EngineMode::Tree);
        if by_costs && !decoder.proposers().is_empty() {
            let costs = costs::known_or_measured(&decoder, &info, options, engine.max_batch, progress)?;
            decoder.set_costs(costs);
        }
        let experience = experience::Kept::of(&decoder, &info, options);
        let tier = prefix.and_then(|prefix| prefix.disk(&decoder, &info, options));
        let tier = tier.map(|tier| Box::new(tier) as _);
        let engine = EngineHandle::start_with(decoder, engine, tier);
        Ok(Self { engine, text, stop_ids, info, experience })
    }

    /// Its parts.
    pub fn into_parts(self) -> RuntimeParts {
        let Self { engine, text, stop_ids, info, experience } = self;
        RuntimeParts { engine, text, stop_ids, info, experience }
    }

    /// The engine.
    pub fn engine(&self) -> &EngineHandle {
        &self.engine
    }

    /// Tokenizer and template.
    pub fn text(&self) -> &TextPipeline {
        &self.text
    }

    /// Every id that ends an answer, by any of the model's files.
    pub fn stop_ids(&self) -> &[u32] {
        &self.stop_ids
    }

    /// What was loaded.
    pub fn info(&self) -> &PairInfo {
        &self.info
    }
}

/// A load that takes a moment shows how far it is.
fn load_with_progress(
    files: TargetFiles,
    backend: &Arc<CpuBackend>,
    progress: Progress,
) -> Outcome<LoadedTarget> {
    let began = Instant::now();
    let mut step = None;
    let loaded = files.load(Arc::clone(backend) as _, &mut |done, total| {
        if began.elapsed() > Duration::from_secs(1) {
            step.get_or_insert_with(|| progress.step("Loading the model", total)).set(done);
        }
    });
    loaded.map_err(|error| target_failure(&error))
}

fn target_failure(error: &ModelError) -> Failure {
    model_failure("cannot load the model", error)
}

fn model_failure(what: &str, error: &ModelError) -> Failure {
    let mut failure = Failure::new(what).cause(error);
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        failure = failure.cause(error);
        source = error.source();
    }
    failure
}

type Proposers = Vec<Box<dyn Proposer>>;

/// The proposers, the cheapest first, and what they are.
fn open_draft(found: &Draft, target: &dyn Target, options: &Options) -> Outcome<(DraftInfo, Proposers)> {
    let quant = options.draft_quant;
    if !matches!(found, Draft::Model { .. })
        && quant.origin == Origin::Flag
        && quant.value != Some(DraftQuant::Off)
    {
        return Err(
            Failure::usage("--draft-quant needs a draft model").hint("leave it out, or pass --draft PATH")
        );
    }
    match found {
        Draft::None => Ok((DraftInfo::None, Vec::new())),
        Draft::Ngram => {
            let block = block(&DraftInfo::Ngram, options);
            Ok((DraftInfo::Ngram, vec![Box::new(ContextCopy::new(block)), Box::new(Grammar::new(block))]))
        }
        Draft::Model { path, registry_quant } => {
            let quant = DraftQuant::effective(options.draft_quant.value, *registry_quant);
            let model = load_draft(path, target, quant.0, options)?;
            let info = DraftInfo::Model { path: path.clone(), spec: model.spec().clone(), quant };
            let block = block(&info, options);
            let (copy, grammar) = (ContextCopy::new(block), Grammar::new(block));
            Ok((info, vec![Box::new(copy), Box::new(grammar), Box::new(BlockDiffusion::new(model))]))
        }
    }
}

/// Rows of a block: as many as a copy or a draft can fill. A draft proposes no more than it was trained for.
fn block(draft: &DraftInfo, options: &Options) -> usize {
    let most = match draft {
        DraftInfo::Model { spec, .. } => spec.block.max(DEFAULT_BLOCK),
        DraftInfo::None | DraftInfo::Ngram => DEFAULT_BLOCK,
    };
    options.block_tokens.value.unwrap_or(most).min(most)
}

fn load_draft(path: &Path, target: &dyn Target, quant: DraftQuant, options: &Options) -> Outcome<DraftModel> {
    let quant = match quant {
        DraftQuant::Off => None,
        DraftQuant::Affine { bits, group_size, .. } => {
            Some(dflash_models::DraftQuant { bits, group: group_size })
        }
    };
    let (sink, window) = (options.draft_sink_size.value, Some(options.draft_window_size.value));
    DraftModel::load(path, target, DraftOptions { sink, window, quant }).map_err(|error| {
        model_failure("cannot load the draft", &error)
            .hint("pass --draft PATH with the draft of this very target, --draft ngram or --draft none")
    })
}

/// The union of what config, generation config and tokenizer say.
fn stop_ids(spec: &TargetSpec, text: &TextPipeline) -> Vec<u32> {
    let tokenizer = text.tokenizer();
    let mut ids = spec.stop_ids.clone();
    for &id in tokenizer.eos_ids().iter().chain(tokenizer.known_end_ids()) {
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    ids
}

fn info(located: &Located, loaded: &LoadedTarget, draft: DraftInfo, backend: &CpuBackend) -> PairInfo {
    let cache = loaded.target.new_cache();
    let per_layer = |index: usize| cache.layer(index).bytes_per_position() as u64;
    let (draft_bytes, draft_notes) = match &draft {
        DraftInfo::Model { spec, .. } => (spec.weight_bytes, spec.notes.clone()),
        DraftInfo::None | DraftInfo::Ngram => (0, Vec::new()),
    };
    PairInfo {
        target_path: located.path.clone(),
        called: located.names.iter().cloned().chain(loaded.name.clone()).collect(),
        draft,
        target: loaded.target.spec().clone(),
        backend: dflash_tensor::Backend::name(backend),
        weight_bytes: loaded.weight_bytes + draft_bytes,
        cache_bytes_per_position: (0..cache.layers()).map(per_layer).sum(),
        // The committed state and the one that a pass writes.
        state_bytes: 2 * cache.bytes() as u64,
        fallback: None,
        notes: [&loaded.notes[..], &draft_notes].concat(),
    }
}

fn decoder(target: Box<dyn Target>, proposers: Proposers, info: &PairInfo, options: &Options) -> Decoder {
    let engine = DecoderOptions {
        prefill_chunk: options.prefill_step_size.value,
        block: block(&info.draft, options),
        verify_cap: options.verify_len_cap.value,
        mode: match options.verify_mode.value {
            VerifyMode::Adaptive => EngineMode::Adaptive,
            VerifyMode::Ddtree => EngineMode::Tree,
            VerifyMode::Dflash => EngineMode::Fixed,
            VerifyMode::Off => EngineMode::Off,
        },
    };
    Decoder::new(target, proposers, engine)
}

/// What identifies a pair in reports.
#[derive(Debug, Clone, Serialize)]
pub struct PairNames {
    /// File or directory of the target.
    pub target: String,
    /// File or directory of the draft, `none` or `ngram`.
    pub draft: String,
}

impl PairInfo {
    /// For reports.
    pub fn names(&self) -> PairNames {
        let draft = match &self.draft {
            DraftInfo::None => "none".to_owned(),
            DraftInfo::Ngram => "ngram".to_owned(),
            DraftInfo::Model { path, .. } => path.display().to_string(),
        };
        PairNames { target: self.target_path.display().to_string(), draft }
    }
}
