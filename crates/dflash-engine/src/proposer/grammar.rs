use std::ops::Range;

use dflash_tensor::{BackendError, Tensor};

use super::{Offer, ProposeRequest, Proposer, ProposerState};

/// Proposes what the request's guard expects: the literal text of a grammar. Costs next to nothing.
pub struct Grammar {
    block: usize,
}

impl Grammar {
    /// At most `block - 1` ids at a time.
    pub fn new(block: usize) -> Self {
        Self { block }
    }
}

fn expected(state: &mut ProposerState) -> &mut Vec<u32> {
    state.downcast_mut().expect("state of this proposer")
}

impl Proposer for Grammar {
    fn name(&self) -> &'static str {
        "grammar"
    }

    fn new_state(&self) -> ProposerState {
        Box::new(Vec::<u32>::new())
    }

    /// The text is sure, its division into ids nearly.
    fn prior(&self, _: usize) -> f32 {
        0.9
    }

    fn observe(&self, _: &mut ProposerState, _: Option<&Tensor>, _: Range<usize>, _: usize) {}

    fn expect(&self, state: &mut ProposerState, ids: &[u32]) {
        let expected = expected(state);
        expected.clear();
        expected.extend_from_slice(&ids[..ids.len().min(self.block - 1)]);
    }

    fn offer(&self, state: &mut ProposerState, _: &[u32]) -> Offer {
        Offer { ids: expected(state).len(), class: 0 }
    }

    fn propose(&self, requests: &mut [ProposeRequest<'_>]) -> Result<(), BackendError> {
        for request in requests {
            request.drafted.extend(expected(request.state).iter().take(request.width - 1));
        }
        Ok(())
    }
}
