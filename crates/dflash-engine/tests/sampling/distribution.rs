//! 20,000 draws from eight ids have the distribution they should have, with a draft that draws too and without.
//!
//! Seeds are fixed, so the statistic is one number for ever: the test is for who changes the code.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use dflash_engine::sampling::Sampler;
use dflash_engine::{
    Decoder, Offer, ProposeRequest, Proposer, ProposerState, Request, Sampling, Stats, VerifyMode,
};
use dflash_tensor::{BackendError, Tensor};
use dflash_testkit::TinyLlama;

use crate::common::sampled::request;
use crate::common::*;

const IDS: usize = 8;
const SHARES: [f64; IDS] = [0.30, 0.22, 0.16, 0.12, 0.09, 0.06, 0.04, 0.01];
const SEEDS: u64 = 20;
const DRAWS: usize = 1000;
/// Of a χ² with 7 degrees of freedom, one in a thousand is above.
const LIMIT: f64 = 24.32;

/// A Llama with eight ids whose logits are all 0, as its last norm is.
fn flat() -> tempfile::TempDir {
    let dir = tiny_llama(&TinyLlama {
        vocab: IDS,
        hidden: 8,
        ffn: 8,
        layers: 1,
        heads: 1,
        kv_heads: 1,
        ..TinyLlama::default()
    });
    silence(&dir.path().join("model.safetensors"), "model.norm.weight");
    dir
}

/// Sets a tensor to 0.
fn silence(path: &Path, name: &str) {
    let mut bytes = std::fs::read(path).unwrap();
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let json: serde_json::Value = serde_json::from_slice(&bytes[8..8 + header]).unwrap();
    let ends: [usize; 2] = serde_json::from_value(json[name]["data_offsets"].clone()).unwrap();
    bytes[8 + header + ends[0]..8 + header + ends[1]].fill(0);
    std::fs::write(path, bytes).unwrap();
}

/// How the second of two models draws.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Draft {
    /// By the rule, its own logits being some way off.
    Coupled,
    /// The most probable id, always.
    Best,
}

impl Proposer for Draft {
    fn name(&self) -> &'static str {
        "toy"
    }

    fn new_state(&self) -> ProposerState {
        Box::new(())
    }

    fn observe(&self, _: &mut ProposerState, _: Option<&Tensor>, _: Range<usize>, _: usize) {}

    fn offer(&self, _: &mut ProposerState, _: &[u32]) -> Offer {
        Offer { ids: BLOCK - 1, class: 0 }
    }

    fn propose(&self, requests: &mut [ProposeRequest<'_>]) -> Result<(), BackendError> {
        let logits = [0.2, -0.3, 0.4, 0.0, -0.2, 0.5, 0.0, 1.0];
        for request in requests {
            let rule = request.rule.expect("these requests sample");
            let mut sampler = Sampler::default();
            for _ in 1..request.width {
                let distribution = sampler.distribution(&rule, request.ids, request.drafted, &logits);
                let id = distribution.expect("numbers").choice();
                request.drafted.push(if *self == Self::Coupled { id } else { 0 });
            }
        }
        Ok(())
    }
}

/// How often each id came, and what it took.
fn draw(path: &Path, sampling: &Sampling, draft: Option<Draft>) -> ([usize; IDS], Vec<Stats>) {
    let proposers = draft.map(|draft| Box::new(draft) as Box<dyn Proposer>).into_iter().collect();
    let decoder = Decoder::new(target(path), proposers, options(VerifyMode::Fixed));
    let mut counts = [0; IDS];
    let stats = (0..SEEDS).map(|seed| {
        let sampling = Sampling { seed, ..sampling.clone() };
        let got = answer(&decoder, Request { logprobs: None, ..request(&[1], &sampling, DRAWS) });
        got.ids.iter().for_each(|&id| counts[id as usize] += 1);
        got.stats
    });
    let stats = stats.collect();
    (counts, stats)
}

fn acceptance(stats: &[Stats]) -> f64 {
    let sum = |of: fn(&Stats) -> usize| stats.iter().map(of).sum::<usize>() as f64;
    sum(|stats| stats.accepted) / sum(|stats| stats.drafted)
}

#[test]
fn draws_have_their_distribution_with_every_filter() {
    let dir = flat();
    let logit_bias = (0..).zip(SHARES.map(f64::ln)).collect::<BTreeMap<u32, f64>>();
    let warm = Sampling { temperature: 1.0, logit_bias, ..Sampling::default() };
    for sampling in [
        warm.clone(),
        Sampling { temperature: 0.7, ..warm.clone() },
        Sampling { temperature: 1.8, ..warm.clone() },
        Sampling { top_k: 5, ..warm.clone() },
        Sampling { top_p: 0.75, ..warm.clone() },
        Sampling { min_p: 0.25, ..warm.clone() },
        Sampling { temperature: 1.3, top_k: 6, top_p: 0.9, min_p: 0.3, ..warm.clone() },
    ] {
        let (counts, _) = draw(dir.path(), &sampling, None);
        let logits = naive::adjusted(&[0.0; IDS], &sampling, &[], 0);
        let expected = naive::distribution(&logits, &sampling);
        let draws = (SEEDS as usize * DRAWS) as f64;
        let off = |(id, p): &(u32, f64)| (counts[*id as usize] as f64 - p * draws).powi(2) / (p * draws);
        let chi_square = expected.iter().map(off).sum::<f64>();
        assert!(chi_square < LIMIT, "{chi_square} for {counts:?}, {sampling:?}");
        let drawn = expected.iter().map(|(id, _)| counts[*id as usize]).sum::<usize>();
        assert_eq!(drawn as f64, draws, "no id that is filtered out came");
        let (coupled, with_coupled) = draw(dir.path(), &sampling, Some(Draft::Coupled));
        let (best, with_best) = draw(dir.path(), &sampling, Some(Draft::Best));
        assert_eq!((coupled, best), (counts, counts), "{sampling:?}");
        let (coupled, best) = (acceptance(&with_coupled), acceptance(&with_best));
        assert!(coupled > best + 0.1, "{coupled} of the coupled draft's ids accepted, {best} of the best");
    }
}

/// The test can fail: these draws have another distribution.
#[test]
fn a_wrong_distribution_shows() {
    let dir = flat();
    let logit_bias = (0..).zip(SHARES.map(f64::ln)).collect::<BTreeMap<u32, f64>>();
    let sampling = Sampling { temperature: 1.15, logit_bias, ..Sampling::default() };
    let (counts, _) = draw(dir.path(), &sampling, None);
    let draws = (SEEDS as usize * DRAWS) as f64;
    let off = |(&count, p): (&usize, f64)| (count as f64 - p * draws).powi(2) / (p * draws);
    assert!(counts.iter().zip(SHARES).map(off).sum::<f64>() > LIMIT, "{counts:?}");
}

/// Known answers: each id of a penalty sees the ones before it, and what the prompt holds is no part of the answer.
#[test]
fn penalties_take_turns() {
    let dir = flat();
    let decoder = Decoder::new(target(dir.path()), Vec::new(), options(VerifyMode::Off));
    let base = Sampling { logit_bias: BTreeMap::from([(3, 90.0), (7, 89.5)]), ..Sampling::default() };
    for (sampling, expected) in [
        (base.clone(), [3, 3, 3, 3, 3]),
        (Sampling { frequency_penalty: 1.0, ..base.clone() }, [3, 7, 3, 7, 3]),
        (Sampling { frequency_penalty: 0.3, ..base.clone() }, [3, 3, 7, 3, 7]),
        (Sampling { presence_penalty: 1.0, ..base.clone() }, [3, 7, 3, 3, 3]),
        // The prompt counts here: 7 is out from the start, and 3 after its first time.
        (Sampling { repetition_penalty: 2.0, ..base.clone() }, [3, 3, 3, 3, 3]),
        (Sampling { repetition_penalty: 0.5, ..base }, [7, 7, 7, 7, 7]),
    ] {
        let asked = request(&[1, 7, 7, 7], &sampling, 5);
        assert_eq!(answer(&decoder, asked).ids, expected, "{sampling:?}");
    }
}
