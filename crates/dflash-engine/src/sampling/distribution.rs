use super::race::Race;
use super::scale::Scale;
use super::{Noise, SamplingParams};

/// What may be chosen at a position, after all adjustments and filters.
pub struct Distribution<'a> {
    pub(super) row: &'a [f32],
    /// The highest logit's id.
    pub(super) best: u32,
    pub(super) scale: Scale,
    /// Ids that the filters left; `None` for all.
    pub(super) kept: Option<&'a [u32]>,
    /// `None` takes the best.
    pub(super) noise: Option<Noise>,
}

impl Distribution<'_> {
    /// The id that is chosen.
    pub fn choice(&self) -> u32 {
        let Some(noise) = self.noise else { return self.best };
        let race = Race::new(self.row, self.scale, noise, self.best);
        match self.kept {
            Some(ids) => race.among(ids),
            None => race.among_all(),
        }
    }

    /// Probability of an id; where the highest logit is taken, that at temperature 1.
    pub fn probability(&self, id: u32) -> f32 {
        let mass = |id: u32| f64::from(self.scale.mass(self.row[id as usize]));
        match self.kept {
            Some(ids) if !ids.contains(&id) => 0.0,
            Some(ids) => (mass(id) / ids.iter().map(|&id| mass(id)).sum::<f64>()) as f32,
            None => (mass(id) / self.scale.total(self.row)) as f32,
        }
    }
}

/// How logits are seen; greedy choices have no temperature.
pub(super) fn scale(params: &SamplingParams, max: f32) -> Scale {
    Scale::new(max, if params.is_greedy() { 1.0 } else { params.temperature })
}
