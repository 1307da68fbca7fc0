//! Choices the long way: every probability, every logarithm, no pruning.

use dflash_engine::Sampling;
use dflash_engine::sampling::Noise;

/// Logits after bias and penalties; the first `prompt` of `ids` are the prompt.
pub fn adjusted(logits: &[f32], sampling: &Sampling, ids: &[u32], prompt: usize) -> Vec<f64> {
    let adjust = |(id, &logit): (usize, &f32)| {
        let id = id as u32;
        let biased = (f64::from(logit) + sampling.logit_bias.get(&id).unwrap_or(&0.0)) as f32;
        let mut value = f64::from(biased);
        if ids.contains(&id) {
            let penalty = sampling.repetition_penalty;
            value = if value > 0.0 { value / penalty } else { value * penalty };
        }
        let times = ids[prompt..].iter().filter(|&&other| other == id).count();
        if times > 0 {
            value -= sampling.presence_penalty + sampling.frequency_penalty * times as f64;
        }
        f64::from(value as f32)
    };
    logits.iter().enumerate().map(adjust).collect()
}

/// Ids with their probabilities after all filters, the best first.
pub fn distribution(adjusted: &[f64], sampling: &Sampling) -> Vec<(u32, f64)> {
    let mut ids = (0..adjusted.len() as u32).collect::<Vec<_>>();
    ids.sort_by(|&a, &b| adjusted[b as usize].total_cmp(&adjusted[a as usize]).then(a.cmp(&b)));
    if sampling.temperature == 0.0 {
        return vec![(ids[0], 1.0)];
    }
    if sampling.top_k > 0 {
        ids.truncate(sampling.top_k);
    }
    let best = adjusted[ids[0] as usize];
    let mass = |id: u32| ((adjusted[id as usize] - best) / sampling.temperature).exp();
    let total = ids.iter().map(|&id| mass(id)).sum::<f64>();
    if sampling.top_p < 1.0 {
        let mut before = 0.0;
        ids.retain(|&id| {
            let kept = before < sampling.top_p * total;
            before += mass(id);
            kept
        });
    }
    ids.retain(|&id| mass(id) >= sampling.min_p);
    let total = ids.iter().map(|&id| mass(id)).sum::<f64>();
    ids.iter().map(|&id| (id, mass(id) / total)).collect()
}

/// What comes after `ids`.
pub fn choice(logits: &[f32], sampling: &Sampling, ids: &[u32], prompt: usize, choice: u32) -> u32 {
    let noise = Noise::new(sampling.seed, choice, ids.len());
    let runners = distribution(&adjusted(logits, sampling, ids, prompt), sampling);
    let time = |&(id, p): &(u32, f64)| noise.exponential(id) / p;
    runners.iter().min_by(|a, b| time(a).total_cmp(&time(b))).expect("an id").0
}
