use std::sync::{Arc, Mutex};
use std::time::Instant;

use dflash_models::{Taps, Target, Workspace};
use dflash_tensor::{Backend, Batch, Choice, SeqCache, Tensor};

use crate::choices::{choose, deliver};
use crate::cycle::{Emit, cycle};
use crate::prefill::prefill;
use crate::sampling::{MOST_ALTERNATIVES, Sampler, SamplingError};
use crate::sequence::Sequence;
use crate::{
    Adaptive, Decoding, EngineError, Event, Experience, FinishReason, Fixed, Offer, Proposer, Request, Stats,
    StepCosts, TokenLogprobs, WidthPolicy,
};

/// How the width of a cycle is picked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerifyMode {
    /// By measured costs and acceptance.
    Adaptive,
    /// As adaptive, verifying trees of the draft's alternatives instead of its one chain.
    Tree,
    /// Always the whole block.
    Fixed,
    /// Never more than one row.
    Off,
}

/// Settings of a decoder; none of them changes an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecoderOptions {
    /// Prompt rows per pass at most; the engine takes fewer where that is as fast.
    pub prefill_chunk: usize,
    /// Rows of a block, the staged token's included.
    pub block: usize,
    /// Rows verified at most; 0 for the block.
    pub verify_cap: usize,
    /// Width policy.
    pub mode: VerifyMode,
}

impl DecoderOptions {
    /// Rows a cycle verifies at most.
    pub fn max_width(&self) -> usize {
        let block = self.block.max(1);
        if self.verify_cap == 0 { block } else { block.min(self.verify_cap) }
    }
}

type NewPolicy = dyn Fn(&Decoder) -> Box<dyn WidthPolicy> + Send + Sync;

/// A target with its proposers: everything that decoding needs besides the sequences.
pub struct Decoder {
    target: Box<dyn Target>,
    proposers: Vec<Box<dyn Proposer>>,
    options: DecoderOptions,
    costs: Option<Arc<StepCosts>>,
    experience: Arc<Mutex<Experience>>,
    policy: Box<NewPolicy>,
}

/// Storage of the one pass at a time, reused from step to step.
pub(crate) struct Scratch {
    pub workspace: Workspace,
    pub taps: Option<Taps>,
    pub batch: Batch,
    pub rows: Vec<u32>,
    pub offers: Vec<Offer>,
    pub drafted: Vec<u32>,
    pub confidence: Vec<f32>,
    /// Of the rows of a tree; empty for a chain.
    pub parents: Vec<Option<usize>>,
    /// Rows of the last pass that were accepted, the staged one first.
    pub path: Vec<usize>,
    /// Tapped rows of a path through a tree, one after the other.
    gathered: Option<Tensor>,
    pub accepted: Vec<u32>,
    pub choices: Vec<Choice>,
    pub sampler: Sampler,
    pub logits: Option<Tensor>,
    /// Whether these are of the last pass.
    pub has_logits: bool,
    pub logprobs: Vec<TokenLogprobs>,
    listed: Vec<usize>,
}

impl Scratch {
    /// Tapped rows of the last pass; of a tree those of the path.
    pub fn tapped(&self) -> Option<&Tensor> {
        let rows = self.taps.as_ref().map(Taps::rows);
        if self.parents.is_empty() { rows } else { self.gathered.as_ref().or(rows) }
    }

    /// The drafted row that follows `row` with `id`, which then belongs to the path.
    pub fn step(&mut self, row: usize, id: u32) -> Option<usize> {
        let follows = |next: &usize| match self.parents.get(*next) {
            Some(parent) => *parent == Some(row),
            None => *next == row + 1,
        };
        let right = |next: &usize| self.drafted[next - 1] == id;
        let next = (row + 1..=self.drafted.len()).filter(follows).find(right)?;
        self.path.push(next);
        Some(next)
    }

    /// Drafted positions that the last pass verified.
    pub fn depth(&self) -> usize {
        match self.parents.is_empty() {
            true => self.drafted.len(),
            false => {
                let span = &self.batch.spans()[0];
                (0..span.rows).map(|row| span.position(row) - span.start).max().unwrap_or(0)
            }
        }
    }

    /// Brings the first `rows` tapped rows of a path through a tree together.
    pub fn gather_path(&mut self, backend: &dyn Backend, rows: usize) {
        let Some(taps) = self.taps.as_ref().filter(|_| !self.parents.is_empty()) else { return };
        let source = taps.rows();
        let out = self.gathered.take().filter(|tensor| tensor.capacity() >= rows);
        let mut out = out.unwrap_or_else(|| backend.tensor(rows, source.cols()));
        out.set_rows(rows);
        for (row, &from) in self.path[..rows].iter().enumerate() {
            backend.copy(source, from, 1, &mut out, row, 0);
        }
        self.gathered = Some(out);
    }

    /// Lists the rows of the last pass from `first` on.
    fn list_rows(&mut self, first: usize) {
        self.listed.clear();
        self.listed.extend(first..self.batch.rows());
    }
}

impl Decoder {
    /// A decoder with the policy of `options.mode`. Adaptive widths need [`Decoder::set_costs`] first;
    /// until then every step is plain.
    pub fn new(target: Box<dyn Target>, proposers: Vec<Box<dyn Proposer>>, options: DecoderOptions) -> Self {
        let experience = Arc::new(Mutex::new(Experience::new(&proposers, options.block)));
        Self { target, proposers, options, costs: None, experience, policy: Box::new(policy_of_mode) }
    }

    /// Replaces the width policy of new sequences.
    pub fn with_policy(
        mut self,
        policy: impl Fn(&Decoder) -> Box<dyn WidthPolicy> + Send + Sync + 'static,
    ) -> Self {
        self.policy = Box::new(policy);
        self
    }

    /// A new decoder of the same target and settings with other proposers.
    pub fn with_proposers(
        self,
        replace: impl FnOnce(Vec<Box<dyn Proposer>>) -> Vec<Box<dyn Proposer>>,
    ) -> Self {
        Self::new(self.target, replace(self.proposers), self.options)
    }

    /// What cycles cost here, see [`StepCosts::measure`].
    pub fn set_costs(&mut self, costs: StepCosts) {
        self.costs = Some(Arc::new(costs));
    }

    /// What earlier requests of the pair have shown, shared by all sequences of this decoder: each adds to it when
    /// it ends.
    pub fn experience(&self) -> &Arc<Mutex<Experience>> {
        &self.experience
    }

    /// What cycles cost here, if known.
    pub fn costs(&self) -> Option<&StepCosts> {
        self.costs.as_deref()
    }

    /// The target.
    pub fn target(&self) -> &dyn Target {
        self.target.as_ref()
    }

    /// The proposers.
    pub fn proposers(&self) -> &[Box<dyn Proposer>] {
        &self.proposers
    }

    /// The settings.
    pub fn options(&self) -> &DecoderOptions {
        &self.options
    }

    /// Decodes one request; every event goes to `emit`, which returns false to cancel. The last event is
    /// `Finished`, unless the request was cancelled or failed.
    ///
    /// # Errors
    /// A prompt that cannot be continued, or the backend's error.
    pub fn decode(&self, request: Request, emit: &mut dyn FnMut(Event) -> bool) -> Result<(), EngineError> {
        self.decode_with(&mut self.scratch(), request, emit)
    }

    pub(crate) fn decode_with(
        &self,
        scratch: &mut Scratch,
        request: Request,
        emit: &mut Emit<'_>,
    ) -> Result<(), EngineError> {
        let mut seq = self.admit(request)?;
        let began = Instant::now();
        if !prefill(self, scratch, &mut seq, emit)? {
            return Ok(());
        }
        if !first(self, scratch, &mut seq, emit)? {
            return Ok(());
        }
        seq.stats.prefill_s = began.elapsed().as_secs_f64();
        let began = Instant::now();
        while seq.finish.is_none() {
            if !cycle(self, scratch, &mut seq, emit)? {
                return Ok(());
            }
        }
        seq.stats.decode_s = began.elapsed().as_secs_f64();
        seq.stats.policy = seq.policy.finish();
        let reason = seq.finish.unwrap_or(FinishReason::Length);
        emit(Event::Finished { reason, stats: seq.stats });
        Ok(())
    }

    /// Logits of the position after `ids`, computed afresh.
    ///
    /// # Errors
    /// A prompt that cannot be continued.
    pub fn logits_after(&self, ids: &[u32]) -> Result<Vec<f32>, EngineError> {
        let mut seq = self.admit(Request { decoding: Decoding::Plain, ..Request::new(ids.to_vec(), 1) })?;
        let mut scratch = self.scratch();
        prefill(self, &mut scratch, &mut seq, &mut |_| true)?;
        let backend = self.target.backend();
        let mut out = backend.tensor(1, self.target.head().rows());
        self.target.logits(&scratch.workspace, &[scratch.batch.rows() - 1], &mut out);
        let mut logits = backend.read(&out, 0);
        logits.truncate(self.target.spec().vocab);
        Ok(logits)
    }

    fn admit(&self, request: Request) -> Result<Sequence, EngineError> {
        let spec = self.target.spec();
        let (prompt, context) = (request.prompt.len(), spec.context);
        if prompt == 0 {
            return Err(EngineError::EmptyPrompt);
        }
        if prompt >= context && request.max_tokens > 0 || prompt > context {
            return Err(EngineError::PromptTooLong { prompt, context });
        }
        let unknown = request.prompt.iter().position(|&id| id as usize >= spec.vocab);
        if let Some(position) = unknown {
            let id = request.prompt[position];
            return Err(EngineError::UnknownId { id, position, vocab: spec.vocab });
        }
        request.sampling.fits(spec.vocab)?;
        if let Some(given) = request.logprobs.filter(|&given| given > MOST_ALTERNATIVES) {
            return Err(SamplingError::TooManyAlternatives { given }.into());
        }
        let proposers = self.proposers_of(request.decoding);
        let (budget, mut ids) = (request.max_tokens.min(context - prompt), request.prompt);
        ids.reserve_exact(budget);
        Ok(Sequence {
            prompt,
            budget,
            ids,
            stop_ids: request.stop_ids,
            guard: request.guard,
            sampling: request.sampling,
            choice: request.choice,
            logprobs: request.logprobs,
            cache: self.target.new_cache(),
            proposers: proposers.iter().map(|proposer| proposer.new_state()).collect(),
            tapped: proposers.iter().any(|proposer| !proposer.taps().is_empty()),
            policy: if proposers.is_empty() { Box::new(Fixed::PLAIN) } else { (self.policy)(self) },
            finish: None,
            stats: Stats { prompt_tokens: prompt, ..Stats::default() },
        })
    }

    /// Those that take part.
    fn proposers_of(&self, decoding: Decoding) -> &[Box<dyn Proposer>] {
        let free = self.proposers.iter().take_while(|proposer| !proposer.costly()).count();
        let count = match (self.options.mode, decoding) {
            (VerifyMode::Off, _) | (_, Decoding::Plain) => 0,
            (_, Decoding::Ngram) => free,
            (_, Decoding::Speculative) => self.proposers.len(),
        };
        &self.proposers[..count]
    }

    pub(crate) fn scratch(&self) -> Scratch {
        let layers = self.proposers.iter().map(|proposer| proposer.taps()).find(|taps| !taps.is_empty());
        let width = self.options.max_width();
        Scratch {
            workspace: self.target.workspace(),
            taps: layers.map(|layers| {
                Taps::new(Arc::clone(self.target.backend()), layers, self.target.spec().hidden)
            }),
            batch: Batch::new(),
            rows: Vec::with_capacity(width),
            offers: Vec::with_capacity(self.proposers.len()),
            drafted: Vec::with_capacity(width),
            confidence: Vec::with_capacity(width),
            parents: Vec::new(),
            path: Vec::with_capacity(width),
            gathered: None,
            accepted: Vec::with_capacity(width),
            choices: Vec::with_capacity(width),
            sampler: Sampler::default(),
            logits: None,
            has_logits: false,
            logprobs: Vec::new(),
            listed: Vec::with_capacity(width),
        }
    }

    /// Runs `scratch.batch` through the target, with taps for the proposers when `tapped`.
    pub(crate) fn forward(&self, scratch: &mut Scratch, cache: &mut SeqCache, tapped: bool) {
        let taps = scratch.taps.as_mut().filter(|_| tapped);
        self.target.forward(&mut scratch.workspace, &scratch.batch, &mut [cache], taps);
    }

    /// The target's choice at the rows of the last pass from `first` on.
    pub(crate) fn choose_from(&self, scratch: &mut Scratch, first: usize) -> Result<(), EngineError> {
        scratch.list_rows(first);
        scratch.choices.clear();
        Ok(self.target.choose(&scratch.workspace, &scratch.listed, &mut scratch.choices)?)
    }

    /// The target's logits at the rows of the last pass from `first` on, into `scratch.logits`.
    pub(crate) fn logits_from(&self, scratch: &mut Scratch, first: usize) {
        scratch.list_rows(first);
        let rows = scratch.listed.len();
        let out = scratch.logits.take().filter(|tensor| tensor.capacity() >= rows);
        let mut out = out.unwrap_or_else(|| self.target.backend().tensor(rows, self.target.head().rows()));
        out.set_rows(rows);
        self.target.logits(&scratch.workspace, &scratch.listed, &mut out);
        scratch.logits = Some(out);
        scratch.has_logits = true;
    }
}

/// The choice after the prompt is committed and emitted at once: it is the first staged token.
fn first(
    decoder: &Decoder,
    scratch: &mut Scratch,
    seq: &mut Sequence,
    emit: &mut Emit<'_>,
) -> Result<bool, EngineError> {
    if seq.budget == 0 {
        seq.finish = Some(FinishReason::Length);
        return Ok(true);
    }
    let last = scratch.batch.rows() - 1;
    let committed = choose(decoder, scratch, seq, last)?;
    Ok(deliver(scratch, committed.delivered, emit))
}

fn policy_of_mode(decoder: &Decoder) -> Box<dyn WidthPolicy> {
    let width = decoder.options.max_width();
    match (decoder.options.mode, &decoder.costs) {
        (VerifyMode::Adaptive | VerifyMode::Tree, Some(costs)) => {
            let (costs, experience) = (Arc::clone(costs), Arc::clone(&decoder.experience));
            let policy = Adaptive::new(costs, experience, &decoder.proposers, width);
            match decoder.options.mode {
                VerifyMode::Tree => Box::new(policy.with_trees(width)),
                _ => Box::new(policy),
            }
        }
        (VerifyMode::Fixed, _) => {
            let mut order: Vec<usize> = (0..decoder.proposers.len()).collect();
            order.sort_by_key(|&index| decoder.proposers[index].costly());
            Box::new(Fixed::new(width, order))
        }
        _ => Box::new(Fixed::PLAIN),
    }
}
