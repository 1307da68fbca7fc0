//! Proposers that fail.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dflash_engine::{Curve, Offer, ProposeRequest, Proposer, ProposerState, StepCosts, VerifyMode};
use dflash_tensor::{BackendError, Tensor};

use crate::common::cases::Case;
use crate::common::truth::Truth;
use crate::common::*;

/// Drafts nothing that could be right, and counts how often it is asked.
struct Useless {
    asked: Arc<AtomicUsize>,
    /// Computes NaN, instead of drafting ids that no target has.
    nan: bool,
}

impl Proposer for Useless {
    fn name(&self) -> &'static str {
        "useless"
    }

    fn new_state(&self) -> ProposerState {
        Box::new(())
    }

    fn observe(&self, _: &mut ProposerState, _: Option<&Tensor>, _: Range<usize>, _: usize) {}

    fn offer(&self, _: &mut ProposerState, _: &[u32]) -> Offer {
        Offer { ids: BLOCK - 1, class: 0 }
    }

    fn propose(&self, requests: &mut [ProposeRequest<'_>]) -> Result<(), BackendError> {
        for request in requests {
            self.asked.fetch_add(1, Ordering::Relaxed);
            if self.nan {
                return Err(BackendError::NotANumber { row: 1, id: 0 });
            }
            request.drafted.extend((1..request.width).map(|_| u32::MAX));
        }
        Ok(())
    }
}

#[test]
fn ids_outside_of_the_vocabulary_and_nan_count_against_their_proposer() {
    let case = Case::tiny_llama();
    let truth = Truth::hashed(&case, 6, 300);
    for nan in [false, true] {
        let asked = Arc::new(AtomicUsize::new(0));
        let useless = Useless { asked: Arc::clone(&asked), nan };
        let target = truth.target();
        let options = options(VerifyMode::Adaptive);
        let mut decoder = dflash_engine::Decoder::new(target, vec![Box::new(useless)], options);
        let flat = |seconds| Curve::new(vec![(1, seconds), (16, seconds)]);
        decoder.set_costs(StepCosts { verify: flat(1.0), propose: vec![Some(flat(0.1))] });
        assert_eq!(speculative(&decoder, &truth.prompt, 300).ids, truth.ids);
        let asked = asked.load(Ordering::Relaxed);
        assert!((1..40).contains(&asked), "asked {asked} times in 300 steps");
    }
}
