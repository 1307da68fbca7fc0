use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use dflash_models::{Draft, DraftState, DraftWorkspace, Ranked};
use dflash_tensor::{BackendError, Choice, Tensor};

use super::{Offer, ProposeRequest, Proposer, ProposerState};
use crate::sampling::{Rule, Sampler};

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
}

impl BlockDiffusion {
    /// Wraps a loaded draft.
    pub fn new(draft: Draft) -> Self {
        let sampled = Sampled { sampler: Sampler::default(), logits: draft.logit_rows(), row: Vec::new() };
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
    /// A panic in an earlier request leaves nothing in the scratch that the next pass would read.
    fn scratch(&self) -> MutexGuard<'_, Scratch> {
        self.scratch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn draft_highest(
        &self,
        scratch: &mut Scratch,
        request: &mut ProposeRequest<'_>,
    ) -> Result<(), BackendError> {
        let Scratch { workspace, choices, .. } = scratch;
        let (state, staged) = (downcast(request.state), staged(request.ids));
        self.draft.propose(workspace, &mut [state], &[staged], request.width, choices)?;
        request.drafted.extend(choices[0].iter().map(|choice| choice.id));
        request.confidence.extend(choices[0].iter().map(|choice| (choice.logit - choice.logsumexp).exp()));
        Ok(())
    }

    fn draft_ranked(
        &self,
        scratch: &mut Scratch,
        request: &mut ProposeRequest<'_>,
    ) -> Result<(), BackendError> {
        let Scratch { workspace, ranked, .. } = scratch;
        let (state, staged) = (downcast(request.state), staged(request.ids));
        self.draft.propose_ranked(workspace, state, staged, request.width, request.ranks, ranked)?;
        request.drafted.extend(ranked.iter().map(|ranked| ranked.id));
        request.confidence.extend(ranked.iter().map(|ranked| ranked.probability));
        Ok(())
    }

    /// By the target's rule and with its noise, each id seeing those before it: where the two models agree about
    /// probabilities, they agree about the id.
    fn draft_by_rule(
        &self,
        scratch: &mut Scratch,
        request: &mut ProposeRequest<'_>,
        rule: &Rule<'_>,
    ) -> Result<(), BackendError> {
        let Scratch { workspace, sampled: Sampled { sampler, logits, row: values }, .. } = scratch;
        let (state, staged) = (downcast(request.state), staged(request.ids));
        self.draft.logits(workspace, &mut [state], &[staged], request.width, logits);
        for row in 0..request.width - 1 {
            self.draft.target_logits(logits, row, values);
            let distribution = sampler.distribution(rule, request.ids, request.drafted, values);
            let distribution = distribution.map_err(|id| BackendError::NotANumber { row, id })?;
            let id = distribution.choice();
            request.drafted.push(id);
            request.confidence.push(distribution.probability(id));
        }
        Ok(())
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

    fn offer(&self, _: &mut ProposerState, _: &[u32]) -> Offer {
        Offer { ids: self.draft.spec().block - 1, class: 0 }
    }

    fn propose(&self, requests: &mut [ProposeRequest<'_>]) -> Result<(), BackendError> {
        let scratch = &mut *self.scratch();
        // Sequences of one width share a pass; a width of its own is a pass of its own.
        for request in requests {
            // A small vocabulary may not have so many alternatives.
            let ranked = (2..=self.draft.spec().vocab).contains(&request.ranks);
            match request.rule {
                Some(rule) => self.draft_by_rule(scratch, request, &rule)?,
                None if ranked => self.draft_ranked(scratch, request)?,
                None => self.draft_highest(scratch, request)?,
            }
        }
        Ok(())
    }
}
