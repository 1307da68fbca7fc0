//! Proposers that fail.

use std::fs;
use std::ops::Range;
use std::path::Path;
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
    /// The id that it drafts; none where it computes NaN.
    says: Option<u32>,
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
            let id = self.says.ok_or(BackendError::NotANumber { row: 1, id: 0 })?;
            request.drafted.extend((1..request.width).map(|_| id));
        }
        Ok(())
    }
}

#[test]
fn ids_outside_of_the_vocabulary_and_nan_count_against_their_proposer() {
    let case = Case::tiny_llama();
    let truth = Truth::hashed(&case, 6, 300);
    for says in [Some(u32::MAX), None] {
        let asked = Arc::new(AtomicUsize::new(0));
        let useless = Useless { asked: Arc::clone(&asked), says };
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

/// Makes the embedding of an id NaN.
fn poison(dir: &Path, id: usize) {
    let file = dir.join("model.safetensors");
    let mut bytes = fs::read(&file).unwrap();
    let data = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: serde_json::Value = serde_json::from_slice(&bytes[8..data]).unwrap();
    let table = &header["model.embed_tokens.weight"];
    let begin = data + table["data_offsets"][0].as_u64().unwrap() as usize;
    let row = 4 * table["shape"][1].as_u64().unwrap() as usize;
    bytes[begin + id * row..][..row].fill(0xff);
    fs::write(&file, bytes).unwrap();
}

#[test]
fn a_wrong_id_after_which_the_target_computes_nan_is_as_wrong_as_any() {
    let case = Case::tiny_llama();
    let prompt = prompt(6, 97, 6);
    let whole = || plain(&decoder(&case.path, vec![]), &prompt, 60).ids;
    let ids = whole();
    let never = (0..97).find(|id| !ids.contains(id) && !prompt.contains(id)).unwrap();
    poison(&case.path, never as usize);
    assert_eq!(whole(), ids);
    let useless = Useless { asked: Arc::default(), says: Some(never) };
    assert_eq!(speculative(&decoder(&case.path, vec![Box::new(useless)]), &prompt, 60).ids, ids);
}
