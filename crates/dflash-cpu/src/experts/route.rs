//! The experts of a row and their weights.

use dflash_tensor::Experts;

use crate::pack::LANES;
use crate::rows::sum;
use crate::{Isa, lanes, math};

/// One of the experts of a row.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Pick {
    /// Its index.
    pub(super) expert: usize,
    /// What its output is multiplied with.
    pub(super) weight: f32,
}

/// Fills `picks` with the experts of a row, the highest score first. A NaN among the scores makes all
/// weights NaN.
pub(super) fn route(isa: Isa, experts: &Experts, scores: &[f32], picks: &mut [Pick]) {
    highest(scores, picks);
    let max = picks[0].weight;
    let total = sum_exp(isa, scores, max);
    picks.iter_mut().for_each(|pick| pick.weight = math::exp(pick.weight - max) / total);
    if experts.renormalise {
        let sum: f32 = picks.iter().map(|pick| pick.weight).sum();
        picks.iter_mut().for_each(|pick| pick.weight /= sum);
    }
    if let Some(scale) = &experts.scale {
        picks.iter_mut().for_each(|pick| pick.weight *= scale[pick.expert]);
    }
}

/// The highest scores in falling order, the lower expert first on a tie; weights are the scores.
fn highest(scores: &[f32], picks: &mut [Pick]) {
    for (expert, &weight) in scores.iter().enumerate() {
        let mut place = expert.min(picks.len());
        while place > 0 && weight > picks[place - 1].weight {
            place -= 1;
        }
        if place < picks.len() {
            let end = (expert + 1).min(picks.len());
            picks.copy_within(place..end - 1, place + 1);
            picks[place] = Pick { expert, weight };
        }
    }
}

/// Sum of `exp(score - max)`.
fn sum_exp(isa: Isa, scores: &[f32], max: f32) -> f32 {
    let (wholes, rest) = scores.as_chunks::<LANES>();
    let mut last = [f32::NEG_INFINITY; LANES];
    last[..rest.len()].copy_from_slice(rest);
    let (wholes, last) = (lanes::sum_exp(isa, wholes, max), lanes::sum_exp(isa, &[last], max));
    sum(&std::array::from_fn(|lane| wholes[lane] + last[lane]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(scores: &[f32], top_k: usize) -> Vec<usize> {
        let mut picks = vec![Pick { expert: 99, weight: f32::INFINITY }; top_k];
        highest(scores, &mut picks);
        picks.iter().map(|pick| pick.expert).collect()
    }

    #[test]
    fn the_highest_come_first_and_the_lower_expert_on_a_tie() {
        assert_eq!(chosen(&[1.0, 3.0, 2.0, 3.0, 0.0], 3), [1, 3, 2]);
        assert_eq!(chosen(&[0.0, -0.0, 0.0], 3), [0, 1, 2]);
        assert_eq!(chosen(&[0.0, 1.0, 2.0, 3.0], 4), [3, 2, 1, 0]);
        assert_eq!(chosen(&[f32::NEG_INFINITY; 3], 2), [0, 1]);
        assert_eq!(chosen(&[1.0, 1.0, 5.0, 1.0], 1), [2]);
    }

    #[test]
    fn a_score_that_is_not_a_number_spreads() {
        let experts = |renormalise| Experts {
            gate_up: Vec::new(),
            down: Vec::new(),
            activation: dflash_tensor::Activation::Silu,
            top_k: 2,
            renormalise,
            scale: None,
        };
        for at in 0..20 {
            let mut scores: Vec<f32> = (0..20).map(|i| i as f32).collect();
            scores[at] = f32::NAN;
            for renormalise in [false, true] {
                let mut picks = [Pick::default(); 2];
                route(Isa::detect(), &experts(renormalise), &scores, &mut picks);
                assert!(picks.iter().all(|pick| pick.weight.is_nan() && pick.expert < 20), "{at} {picks:?}");
                assert_ne!(picks[0].expert, picks[1].expert);
            }
        }
    }
}
