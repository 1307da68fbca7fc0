use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use dflash_models::Target;

use crate::block::{Block, Part};
use crate::laps::Lap;
use crate::sampling::{MOST_ALTERNATIVES, Sampler, SamplingError};
use crate::scratch::{Scratch, logits};
use crate::sequence::Sequence;
use crate::step::{MOST_ROWS, step};
use crate::width::Allotment;
use crate::{
    Adaptive, Decoding, EngineError, Event, Experience, Fixed, Proposer, Request, Stats, StepCosts,
    WidthPolicy,
};

/// Prompt rows beside sequences that decode: at least, and where costs are not known.
const LEAST_STEP_ROWS: usize = 16;
const STEP_ROWS: usize = 32;

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
    /// Policies made so far.
    policies: AtomicUsize,
}

/// Of so many requests one tries a proposer of which nothing is to be expected: texts change.
const EXPLORES: usize = 16;

impl Decoder {
    /// A decoder with the policy of `options.mode`. Adaptive widths need [`Decoder::set_costs`] first;
    /// until then every step is plain.
    pub fn new(target: Box<dyn Target>, proposers: Vec<Box<dyn Proposer>>, options: DecoderOptions) -> Self {
        let experience = Arc::new(Mutex::new(Experience::new(&proposers, options.block)));
        let policy = Box::new(policy_of_mode);
        let policies = AtomicUsize::new(0);
        Self { target, proposers, options, costs: None, experience, policy, policies }
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
        let mut scratch = Scratch::new(self);
        let mut seqs = [self.admit(request)?];
        while !seqs[0].is_over() {
            step(self, &mut scratch, &mut seqs, usize::MAX, &mut |_, event| emit(event));
        }
        let [seq] = &mut seqs;
        if let Some(error) = seq.failed.take() {
            return Err(error);
        }
        if let Some(reason) = seq.finish.filter(|_| !seq.gone) {
            emit(Event::Finished { reason, stats: seq.end() });
        }
        Ok(())
    }

    /// Logits of the position after `ids`, computed afresh.
    ///
    /// # Errors
    /// A prompt that cannot be continued.
    pub fn logits_after(&self, ids: &[u32]) -> Result<Vec<f32>, EngineError> {
        let mut scratch = Scratch::new(self);
        let mut seqs = [self.admit(Request { decoding: Decoding::Plain, ..Request::new(ids.to_vec(), 1) })?];
        while !seqs[0].is_over() {
            step(self, &mut scratch, &mut seqs, usize::MAX, &mut |_, _| true);
        }
        if let Some(error) = seqs[0].failed.take() {
            return Err(error);
        }
        logits(self, &scratch.workspace, &[scratch.batch.rows() - 1], &mut scratch.logits);
        let row = scratch.logits.as_ref().expect("computed logits");
        let mut logits = self.target.backend().read(row, 0);
        logits.truncate(self.target.spec().vocab);
        Ok(logits)
    }

    pub(crate) fn admit(&self, request: Request) -> Result<Sequence, EngineError> {
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
            sampler: Sampler::default(),
            cache: self.target.new_cache(),
            proposers: proposers.iter().map(|proposer| proposer.new_state()).collect(),
            asleep: vec![false; proposers.len()],
            tapped: proposers.iter().any(|proposer| !proposer.taps().is_empty()),
            policy: if proposers.is_empty() { Box::new(Fixed::PLAIN) } else { (self.policy)(self) },
            kept: false,
            cuts: request.boundaries,
            awaits: None,
            part: Part::Idle,
            block: Block::new(self.options.max_width()),
            lap: Lap::start(),
            finish: None,
            failed: None,
            gone: false,
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

    /// Prompt rows that take about as long as a plain step, beside it.
    pub(crate) fn step_rows(&self) -> usize {
        let Some(costs) = &self.costs else { return STEP_ROWS };
        let plain = costs.verify.at(1);
        let rows = (LEAST_STEP_ROWS..MOST_ROWS).take_while(|rows| costs.verify.at(1 + rows) <= 2.0 * plain);
        rows.last().unwrap_or(LEAST_STEP_ROWS)
    }

    /// Shares rows among sequences, where costs decide.
    pub(crate) fn allotment(&self) -> Option<Allotment> {
        let by_costs = matches!(self.options.mode, VerifyMode::Adaptive | VerifyMode::Tree);
        self.costs.as_ref().filter(|_| by_costs).map(|costs| Allotment::new(Arc::clone(costs)))
    }
}

fn policy_of_mode(decoder: &Decoder) -> Box<dyn WidthPolicy> {
    let width = decoder.options.max_width();
    match (decoder.options.mode, &decoder.costs) {
        (VerifyMode::Adaptive | VerifyMode::Tree, Some(costs)) => {
            let (costs, experience) = (Arc::clone(costs), Arc::clone(&decoder.experience));
            let policy = Adaptive::new(costs, experience, &decoder.proposers, width);
            let explores = decoder.policies.fetch_add(1, Relaxed).is_multiple_of(EXPLORES);
            let policy = if explores { policy.exploring() } else { policy };
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
