use dflash_tensor::{BackendError, Choice, Tensor};

use super::Draft;
use super::state::{DraftState, DraftWorkspace};

/// A drafted id with the draft's own probability of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ranked {
    /// Target id.
    pub id: u32,
    /// Of the draft's own distribution at the position.
    pub probability: f32,
}

impl Draft {
    /// As [`Draft::propose`], with the `ranks` most probable ids of every position: `out` takes `(width - 1) * ranks` of
    /// them for each sequence, position by position, the best first, lower rows of the head first on ties.
    ///
    /// # Errors
    /// A NaN logit; the states are as before.
    ///
    /// # Panics
    /// As [`Draft::propose`], and when `ranks` is zero or more than the ids that it can propose.
    pub fn propose_ranked(
        &self,
        ws: &mut DraftWorkspace,
        states: &mut [&mut DraftState],
        staged: &[u32],
        width: usize,
        ranks: usize,
        out: &mut Vec<Ranked>,
    ) -> Result<(), BackendError> {
        assert!((1..=self.tables.vocab).contains(&ranks), "{ranks} of {} ids", self.tables.vocab);
        out.clear();
        out.resize(states.len() * (width - 1) * ranks, Ranked { id: 0, probability: 0.0 });
        self.in_turn(ws, states, staged, width, &mut |row, values| {
            let (best, sum) = self.rank(values, ranks);
            let most = values[best[0]];
            for (place, &index) in out[row * ranks..(row + 1) * ranks].iter_mut().zip(&best) {
                *place =
                    Ranked { id: self.target_id(index), probability: (values[index] - most).exp() / sum };
            }
            self.target_id(best[0])
        })
    }

    /// [`Draft::propose`] where every position depends on the choice before it.
    pub(super) fn propose_in_turn(
        &self,
        ws: &mut DraftWorkspace,
        states: &mut [&mut DraftState],
        staged: &[u32],
        width: usize,
        out: &mut Vec<Vec<Choice>>,
    ) -> Result<(), BackendError> {
        out.resize_with(states.len(), Vec::new);
        out.iter_mut().for_each(Vec::clear);
        self.in_turn(ws, states, staged, width, &mut |row, values| {
            let (best, sum) = self.rank(values, 1);
            let (id, logit) = (self.target_id(best[0]), values[best[0]]);
            out[row / (width - 1)].push(Choice { id, logit, logsumexp: logit + sum.ln() });
            id
        })
    }

    /// Runs a block and gives `choose` the logits of every position, by row of the head, position by position for all
    /// sequences; what it chooses, a target id, stands before the next position of that sequence.
    fn in_turn(
        &self,
        ws: &mut DraftWorkspace,
        states: &mut [&mut DraftState],
        staged: &[u32],
        width: usize,
        choose: &mut dyn FnMut(usize, &[f32]) -> u32,
    ) -> Result<(), BackendError> {
        let mut logits = ws.logits.take().unwrap_or_else(|| self.logit_rows());
        let mut previous = std::mem::take(&mut ws.previous);
        self.logits(ws, states, staged, width, &mut logits);
        previous.clear();
        previous.extend_from_slice(staged);
        let done = (0..width - 1).try_for_each(|position| {
            self.follow(ws, &mut logits, width, position, &previous);
            self.choose_at(&logits, width, position, &mut previous, choose)
        });
        (ws.logits, ws.previous) = (Some(logits), previous);
        done
    }

    fn choose_at(
        &self,
        logits: &Tensor,
        width: usize,
        position: usize,
        previous: &mut [u32],
        choose: &mut dyn FnMut(usize, &[f32]) -> u32,
    ) -> Result<(), BackendError> {
        for (sequence, previous) in previous.iter_mut().enumerate() {
            let row = sequence * (width - 1) + position;
            let values = self.backend.read(logits, row);
            let values = &values[..self.tables.vocab];
            if let Some(id) = values.iter().position(|value| value.is_nan()) {
                return Err(BackendError::NotANumber { row, id: id as u32 });
            }
            *previous = choose(row, values);
        }
        Ok(())
    }

    /// The best indices, and the sum of `exp(value - most)`.
    fn rank(&self, values: &[f32], ranks: usize) -> (Vec<usize>, f32) {
        let best = best(values, ranks);
        let sum = exp_sum(values, values[best[0]]);
        (best, sum)
    }

    fn target_id(&self, index: usize) -> u32 {
        self.tables.ids.as_ref().map_or(index as u32, |ids| ids[index])
    }
}

/// `sum exp(value - most)` to about a thousandth, in a loop that compiles to vectors: it decides about widths alone.
fn exp_sum(values: &[f32], most: f32) -> f32 {
    const LANES: usize = 16;
    let chunks = values.chunks_exact(LANES);
    let rest: f32 = chunks.remainder().iter().map(|value| about_exp(value - most)).sum();
    let mut sums = [0.0_f32; LANES];
    for chunk in chunks {
        for (sum, value) in sums.iter_mut().zip(chunk) {
            *sum += about_exp(value - most);
        }
    }
    sums.iter().sum::<f32>() + rest
}

/// `e^x` for `x <= 0`: the whole part of `x log2 e` becomes the exponent, a polynomial gives the rest.
fn about_exp(x: f32) -> f32 {
    /// Adding it leaves a whole number in the low bits.
    const ROUND: f32 = 12_582_912.0;
    let power = (x * std::f32::consts::LOG2_E).max(-126.0);
    let whole = (power + ROUND) - ROUND;
    let part = (power - whole) * std::f32::consts::LN_2;
    let scale = f32::from_bits(((whole as i32 + 127) as u32) << 23);
    scale * (1.0 + part * (1.0 + part * (0.5 + part * (1.0 / 6.0 + part / 24.0))))
}

/// Indices of the `count` highest values, the highest first, the lowest index first on ties.
fn best(values: &[f32], count: usize) -> Vec<usize> {
    let mut best: Vec<usize> = Vec::with_capacity(count + 1);
    for (index, &value) in values.iter().enumerate() {
        if best.len() == count && value <= values[best[count - 1]] {
            continue;
        }
        let place = best.partition_point(|&other| values[other] >= value);
        best.insert(place, index);
        best.truncate(count);
    }
    best
}

#[cfg(test)]
mod tests {
    use super::{best, exp_sum};

    #[test]
    fn the_sum_of_exponentials_is_near() {
        let values: Vec<f32> =
            (0..1003).map(|i| 9.0 - (i as f32 * 0.37) % 31.0).chain([f32::NEG_INFINITY]).collect();
        let exact: f64 = values.iter().map(|value| f64::from(value - 9.0).exp()).sum();
        let near = f64::from(exp_sum(&values, 9.0));
        assert!((near / exact - 1.0).abs() < 1e-3, "{near} for {exact}");
    }

    #[test]
    fn the_best_come_first_and_the_lowest_of_equals() {
        let values = [1.0, 5.0, 3.0, 5.0, -1.0, 3.0];
        assert_eq!(best(&values, 4), [1, 3, 2, 5]);
        assert_eq!(best(&values, 1), [1]);
        assert_eq!(best(&values, 6), [1, 3, 2, 5, 0, 4]);
        assert_eq!(best(&[f32::NEG_INFINITY; 3], 2), [0, 1]);
    }
}
