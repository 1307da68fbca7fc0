//! Who proposes the ids that the target verifies. A new kind is a new file.

use std::any::Any;
use std::ops::Range;

use dflash_tensor::{BackendError, SeqCache, Tensor};

use crate::sampling::Rule;

mod block_diffusion;
mod context_copy;
mod grammar;
mod oracle;

pub use block_diffusion::BlockDiffusion;
pub use context_copy::ContextCopy;
pub use grammar::Grammar;
pub use oracle::{Oracle, Truth};

/// What a proposer remembers of one sequence; lives in the sequence, so that proposers are immutable.
pub type ProposerState = Box<dyn Any + Send>;

/// What a proposer could draft next, before any work is done for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// Ids it could draft at most; 0 when it has nothing to say.
    pub ids: usize,
    /// Kind of evidence behind it, below [`Proposer::classes`]; acceptance is measured per class.
    pub class: usize,
}

/// One sequence that wants drafted ids.
pub struct ProposeRequest<'a> {
    /// The sequence's state of this proposer.
    pub state: &'a mut ProposerState,
    /// Prompt and committed ids; the last one is the staged token.
    pub ids: &'a [u32],
    /// How the target's ids are chosen; `None` where its highest logit is. One who proposes by the same rule, noise
    /// included, is right more often.
    pub rule: Option<Rule<'a>>,
    /// Rows the target will verify: `width - 1` drafted ids are wanted.
    pub width: usize,
    /// Alternatives wanted for every drafted position, the most probable first. A proposer that has no alternatives
    /// drafts one id per position.
    pub ranks: usize,
    /// Takes the drafted ids, position by position. One outside of the vocabulary counts as rejected, as do all after it.
    pub drafted: &'a mut Vec<u32>,
    /// Takes the proposer's own probability of each drafted id, where it has one.
    pub confidence: &'a mut Vec<f32>,
}

/// Proposes the next ids of sequences. What it proposes can cost time, never change the text.
pub trait Proposer: Send + Sync {
    /// Name in statistics.
    fn name(&self) -> &'static str;

    /// State of a new sequence.
    fn new_state(&self) -> ProposerState;

    /// Target layers whose outputs it wants to see, in the order of [`Proposer::observe`]'s columns.
    fn taps(&self) -> &[usize] {
        &[]
    }

    /// Classes of its offers.
    fn classes(&self) -> usize {
        1
    }

    /// Probability that the first drafted id of a class is accepted, until it was measured.
    fn prior(&self, _class: usize) -> f32 {
        0.5
    }

    /// Whether it tells its own probability of every id that it drafts.
    fn confident(&self) -> bool {
        false
    }

    /// Whether a proposal costs about as much as a step of the target, so that its time must be measured.
    fn costly(&self) -> bool {
        false
    }

    /// Rows of the target became committed: `taps` holds one row per committed position, in order, of which
    /// `rows` are new; `upcoming` more will follow before anything is proposed.
    fn observe(&self, state: &mut ProposerState, taps: Option<&Tensor>, rows: Range<usize>, upcoming: usize);

    /// What later sequences that begin alike can go on from; `None` where a new state serves them as well.
    fn keep(&self, _state: &mut ProposerState) -> Option<SeqCache> {
        None
    }

    /// The state of a sequence after its first `len` ids, of which `kept` was kept or nothing; `None` where it cannot be
    /// had: then it does not take part.
    fn recall(&self, _kept: Option<&SeqCache>, _len: usize) -> Option<ProposerState> {
        Some(self.new_state())
    }

    /// The guard of the request expects these ids next; told before every offer where there is a guard.
    fn expect(&self, _state: &mut ProposerState, _ids: &[u32]) {}

    /// What it could draft after `ids` (the last one is the staged token).
    fn offer(&self, state: &mut ProposerState, ids: &[u32]) -> Offer;

    /// Drafts for all sequences in one call.
    ///
    /// # Errors
    /// The backend's.
    fn propose(&self, requests: &mut [ProposeRequest<'_>]) -> Result<(), BackendError>;
}
