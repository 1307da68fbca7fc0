//! What a block-diffusion draft proposes by a rule: the rule's own choices from the draft's logits, by target id.

use dflash_engine::proposer::BlockDiffusion;
use dflash_engine::sampling::Rule;
use dflash_engine::{ProposeRequest, Proposer, SamplingParams};
use dflash_models::Draft;
use dflash_testkit::TinyDraft;

use super::drafts::{CUT, drafts};
use crate::common::cases::Case;
use crate::common::sampled::samplings;
use crate::common::truth::draft_for;
use crate::common::*;

const WIDTH: usize = 4;
const IDS: [u32; 3] = [9, 5, 9];

/// Ids and probabilities of the first block of a sequence.
fn proposed(draft: Draft, rule: Option<Rule<'_>>) -> (Vec<u32>, Vec<f32>) {
    let proposer = BlockDiffusion::new(draft);
    let (mut state, mut drafted, mut confidence) = (proposer.new_state(), Vec::new(), Vec::new());
    let request = ProposeRequest {
        state: &mut state,
        ids: &IDS,
        rule,
        width: WIDTH,
        ranks: 1,
        drafted: &mut drafted,
        confidence: &mut confidence,
    };
    proposer.propose(&mut [request]).expect("numbers");
    (drafted, confidence)
}

/// The draft's logits at the rows of that block, by target id, where these ids were drafted.
fn logits(draft: &Draft, vocab: usize, drafted: &[u32]) -> Vec<Vec<f32>> {
    let (mut workspace, mut state, mut rows) = (draft.workspace(), draft.new_state(), draft.logit_rows());
    draft.logits(&mut workspace, &mut [&mut state], &IDS[2..], WIDTH, &mut rows);
    let previous = [&IDS[2..], drafted].concat();
    let row = |row: usize| {
        let mut values = Vec::new();
        draft.follow(&mut workspace, &mut rows, WIDTH, row, &previous[row..=row]);
        draft.target_logits(&rows, row, &mut values);
        values.resize(vocab, f32::NEG_INFINITY);
        values
    };
    (0..WIDTH - 1).map(row).collect()
}

#[test]
fn a_draft_chooses_by_the_rule_whatever_its_layout() {
    let case = Case::tiny_llama();
    let target = target(&case.path);
    let spec = target.spec();
    for tiny in drafts(spec.layers) {
        let tiny = TinyDraft { block: BLOCK, ..tiny };
        let draft = || draft_for(target.as_ref(), &tiny, CUT);
        for sampling in samplings() {
            let params = SamplingParams::new(sampling.clone()).unwrap();
            let (drafted, confidence) =
                proposed(draft(), Some(Rule { params: &params, choice: 2, prompt: 2 }));
            let rows = logits(&draft(), spec.vocab, &drafted);
            let mut ids = IDS.to_vec();
            for (row, (&id, probability)) in rows.iter().zip(drafted.iter().zip(confidence)) {
                assert_eq!(id, naive::choice(row, &sampling, &ids, 2, 2), "{:?}, {sampling:?}", tiny.layout);
                let adjusted = naive::adjusted(row, &sampling, &ids, 2);
                check(probability, &adjusted, &sampling, id);
                ids.push(id);
            }
            assert_eq!(ids.len(), IDS.len() + WIDTH - 1);
        }
        // Without anything to draw it is the highest logit, by either way.
        let greedy = SamplingParams::default();
        let by_rule = proposed(draft(), Some(Rule { params: &greedy, choice: 0, prompt: 1 }));
        let (highest, probabilities) = proposed(draft(), None);
        assert_eq!(by_rule.0, highest, "{:?}", tiny.layout);
        assert!(by_rule.1.iter().zip(&probabilities).all(|(a, b)| (a - b).abs() < 1e-4));
    }
}

/// The probability of a drafted id, at temperature 1 where nothing is drawn.
fn check(probability: f32, adjusted: &[f64], sampling: &dflash_engine::Sampling, id: u32) {
    let drawn = dflash_engine::Sampling {
        temperature: if sampling.temperature > 0.0 { sampling.temperature } else { 1.0 },
        ..sampling.clone()
    };
    let expected = naive::distribution(adjusted, &drawn);
    let expected = expected.iter().find(|(other, _)| *other == id).expect("a kept id").1;
    assert!((f64::from(probability) - expected).abs() < 1e-4, "{probability} for {expected}");
}
