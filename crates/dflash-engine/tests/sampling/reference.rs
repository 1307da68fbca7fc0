//! Every choice is that of [`naive`], from logits computed afresh: bias, penalties, filters and noise at each position
//! by the ids before it, in blocks that repeat ids too.

use std::collections::BTreeMap;

use dflash_engine::{Decoder, Fixed, Sampling, VerifyMode};
use dflash_testkit::Script;

use crate::common::cases::Case;
use crate::common::sampled::{Sampled, samplings};
use crate::common::*;

/// Few ids, so that they repeat within a block.
fn repeating() -> Vec<Sampling> {
    let few = BTreeMap::from([(3, 9.0), (7, 8.5), (11, 8.0), (40, 7.0)]);
    let base = Sampling { logit_bias: few, seed: 3, ..Sampling::default() };
    let mut all = Vec::new();
    for temperature in [0.0, 1.0] {
        let base = Sampling { temperature, ..base.clone() };
        all.push(Sampling { presence_penalty: 2.0, ..base.clone() });
        all.push(Sampling { frequency_penalty: 0.5, ..base.clone() });
        all.push(Sampling { frequency_penalty: -0.5, ..base.clone() });
        all.push(Sampling { repetition_penalty: 1.4, ..base.clone() });
    }
    all
}

#[test]
fn every_choice_is_that_of_the_long_way() {
    let case = Case::tiny_llama();
    let fresh = Decoder::new(target(&case.path), Vec::new(), options(VerifyMode::Off));
    for sampling in samplings().into_iter().chain(repeating()) {
        let sampled = Sampled::new(&case, sampling.clone(), 7, 50);
        let whole = [&sampled.prompt[..], &sampled.answer.ids].concat();
        for at in 7..whole.len() {
            let logits = fresh.logits_after(&whole[..at]).unwrap();
            let expected = naive::choice(&logits, &sampling, &whole[..at], 7, 0);
            assert_eq!(whole[at], expected, "id {} with {sampling:?}", at - 7);
            check_logprobs(&logits, &sampled.answer.logprobs[at - 7], expected);
        }
        // Whole blocks of right ids: the penalties inside a block are those of its own ids.
        for script in [Script::Oracle, Script::RightFor(5)] {
            let decoder = sampled.mixed(script, 0).with_policy(|_| Box::new(Fixed::new(BLOCK, vec![0])));
            let got = sampled.check(&decoder, "whole blocks");
            assert!(got.stats.accepted >= 40, "{:?}", got.stats);
        }
    }
}

fn check_logprobs(logits: &[f32], told: &dflash_engine::TokenLogprobs, id: u32) {
    let total = logits.iter().map(|&logit| f64::from(logit).exp()).sum::<f64>().ln();
    let close = |id: u32, logprob: f32| {
        let expected = f64::from(logits[id as usize]) - total;
        assert!((f64::from(logprob) - expected).abs() < 1e-5, "{logprob} for {expected}");
    };
    assert_eq!(told.chosen.id, id);
    told.top.iter().chain([&told.chosen]).for_each(|other| close(other.id, other.logprob));
    let mut ids = (0..logits.len() as u32).collect::<Vec<_>>();
    ids.sort_by(|&a, &b| logits[b as usize].total_cmp(&logits[a as usize]).then(a.cmp(&b)));
    assert_eq!(told.top.iter().map(|other| other.id).collect::<Vec<_>>(), ids[..3]);
}
