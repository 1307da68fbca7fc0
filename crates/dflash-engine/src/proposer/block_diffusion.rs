use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use dflash_models::{Draft, DraftState, DraftWorkspace, Ranked};
use dflash_tensor::{BackendError, Choice, SeqCache, Tensor};

use super::{Offer, ProposeRequest, Proposer, ProposerState};
use crate::sampling::Sampler;

/// The DFlash draft (arXiv 2602.06036): one pass over the staged token and mask tokens drafts a block.
pub struct BlockDiffusion {
    draft: Draft,
    /// Scratch of the one thread that decodes.
    scratch: Mutex<Scratch>,
}

struct Scratch {
    workspace: DraftWorkspace,
    /// Of the last pass, by sequence.
    choices: Vec<Vec<Choice>>,
    ranked: Vec<Ranked>,
    sampled: Sampled,
}

/// What a block takes that is drafted by a rule.
struct Sampled {
    sampler: Sampler,
    /// Of the block's rows.
    logits: Tensor,
    /// Of one row, by target id.
    row: Vec<f32>,
    /// Ids that the next position of every sequence follows.
    previous: Vec<u32>,
}

impl BlockDiffusion {
    /// Wraps a loaded draft.
    pub fn new(draft: Draft) -> Self {
        let sampled = Sampled {
            sampler: Sampler::default(),
            logits: draft.logit_rows(),
            row: Vec::new(),
            previous: Vec::new(),
        };
        let scratch =
            Scratch { workspace: draft.workspace(), choices: Vec::new(), ranked: Vec::new(), sampled };
        let scratch = Mutex::new(scratch);
        Self { draft, scratch }
    }

    /// The draft.
    pub fn draft(&self) -> &Draft {
        &self.draft
    }
}

impl BlockDiffusion {
    /// Drafts for sequences of one kind in one pass.
    fn draft_alike(
        &self,
        scratch: &mut Scratch,
        requests: &mut [&mut ProposeRequest<'_>],
    ) -> Result<(), BackendError> {
        let Kind { ranks, by_rule, .. } = Kind::of(requests[0]);
        // A small vocabulary may not have so many alternatives.
        let ranked = (2..=self.draft.spec().vocab).contains(&ranks);
        match (by_rule, ranked) {
            (true, _) => self.draft_by_rule(scratch, requests),
            (false, true) => self.draft_ranked(scratch, requests),
            (false, false) => self.draft_highest(scratch, requests),
        }
    }

    /// A panic in an earlier request leaves nothing in the scratch that the next pass would read.
    fn scratch(&self) -> MutexGuard<'_, Scratch> {
        self.scratch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn draft_highest(
        &self,
        scratch: &mut Scratch,
        requests: &mut [&mut ProposeRequest<'_>],
    ) -> Result<(), BackendError> {
        let Scratch { workspace, choices, .. } = scratch;
        let width = requests[0].width;
        with_states(requests, |states, staged| {
            self.draft.propose(workspace, states, staged, width, choices)
        })?;
        for (request, choices) in requests.iter_mut().zip(choices) {
            request.drafted.extend(choices.iter().map(|choice| choice.id));
            request.confidence.extend(choices.iter().map(|choice| (choice.logit - choice.logsumexp).exp()));
        }
        Ok(())
    }

    fn draft_ranked(
        &self,
        scratch: &mut Scratch,
        requests: &mut [&mut ProposeRequest<'_>],
    ) -> Result<(), BackendError> {
        let Scratch { workspace, ranked, .. } = scratch;
        let (width, ranks) = (requests[0].width, requests[0].ranks);
        with_states(requests, |states, staged| {
            self.draft.propose_ranked(workspace, states, staged, width, ranks, ranked)
        })?;
        for (request, ranked) in requests.iter_mut().zip(ranked.chunks_exact((width - 1) * ranks)) {
            request.drafted.extend(ranked.iter().map(|ranked| ranked.id));
            request.confidence.extend(ranked.iter().map(|ranked| ranked.probability));
        }
        Ok(())
    }

    /// By the target's rules and with their noise, each id seeing those before it: where the two models agree about
    /// probabilities, they agree about the id.
    fn draft_by_rule(
        &self,
        scratch: &mut Scratch,
        requests: &mut [&mut ProposeRequest<'_>],
    ) -> Result<(), BackendError> {
        let Scratch { workspace, sampled, .. } = scratch;
        let Sampled { sampler, logits, row: values, previous } = sampled;
        let width = requests[0].width;
        with_states(requests, |states, staged| self.draft.logits(workspace, states, staged, width, logits));
        previous.clear();
        previous.extend(requests.iter().map(|request| staged(request.ids)));
        for position in 0..width - 1 {
            self.draft.follow(workspace, logits, width, position, previous);
            for (index, request) in requests.iter_mut().enumerate() {
                let ProposeRequest { rule, ids, drafted, confidence, .. } = &mut **request;
                let rule = rule.as_ref().expect("a rule to draft by");
                let row = index * (width - 1) + position;
                self.draft.target_logits(logits, row, values);
                let distribution = sampler.distribution(rule, ids, drafted, values);
                let distribution = distribution.map_err(|id| BackendError::NotANumber { row, id })?;
                let id = distribution.choice();
                confidence.push(distribution.probability(id));
                drafted.push(id);
                previous[index] = id;
            }
        }
        Ok(())
    }
}

/// Calls `body` with the states and staged ids of requests. A single one, as decoding has it, takes no list.
fn with_states<T>(
    requests: &mut [&mut ProposeRequest<'_>],
    body: impl FnOnce(&mut [&mut DraftState], &[u32]) -> T,
) -> T {
    match requests {
        [request] => {
            let staged = staged(request.ids);
            body(&mut [downcast(request.state)], &[staged])
        }
        _ => {
            let staged: Vec<u32> = requests.iter().map(|request| staged(request.ids)).collect();
            let states = requests.iter_mut().map(|request| downcast(request.state));
            body(&mut states.collect::<Vec<_>>(), &staged)
        }
    }
}

fn staged(ids: &[u32]) -> u32 {
    *ids.last().expect("a staged token")
}

fn downcast(state: &mut ProposerState) -> &mut DraftState {
    state.downcast_mut().expect("state of this proposer")
}

impl Proposer for BlockDiffusion {
    fn name(&self) -> &'static str {
        "draft"
    }

    fn new_state(&self) -> ProposerState {
        Box::new(self.draft.new_state())
    }

    fn taps(&self) -> &[usize] {
        &self.draft.spec().taps
    }

    /// Low enough that a draft which just pays its way is first tried in probes.
    fn prior(&self, _: usize) -> f32 {
        0.4
    }

    fn confident(&self) -> bool {
        true
    }

    fn costly(&self) -> bool {
        true
    }

    fn observe(&self, state: &mut ProposerState, taps: Option<&Tensor>, rows: Range<usize>, upcoming: usize) {
        let taps = taps.expect("the target taps the layers this draft asks for");
        let workspace = &mut self.scratch().workspace;
        self.draft.observe(workspace, downcast(state), taps, rows, upcoming);
    }

    fn keep(&self, state: &mut ProposerState) -> Option<SeqCache> {
        self.draft.keep(&mut self.scratch().workspace, downcast(state))
    }

    fn recall(&self, kept: Option<&SeqCache>, len: usize) -> Option<ProposerState> {
        Some(Box::new(self.draft.recall(kept?, len)?))
    }

    fn offer(&self, _: &mut ProposerState, _: &[u32]) -> Offer {
        Offer { ids: self.draft.spec().block - 1, class: 0 }
    }

    fn propose(&self, requests: &mut [ProposeRequest<'_>]) -> Result<(), BackendError> {
        let scratch = &mut *self.scratch();
        if let [request] = requests {
            return self.draft_alike(scratch, &mut [request]);
        }
        let mut rest: Vec<&mut ProposeRequest<'_>> = requests.iter_mut().collect();
        while let Some(kind) = rest.first().map(|request| Kind::of(request)) {
            let mut alike: Vec<_> = rest.extract_if(.., |request| Kind::of(request) == kind).collect();
            self.draft_alike(scratch, &mut alike)?;
        }
        Ok(())
    }
}

/// Sequences of one kind share a pass.
#[derive(PartialEq, Eq)]
struct Kind {
    width: usize,
    ranks: usize,
    by_rule: bool,
}

impl Kind {
    fn of(request: &ProposeRequest<'_>) -> Self {
        Self { width: request.width, ranks: request.ranks, by_rule: request.rule.is_some() }
    }
}
