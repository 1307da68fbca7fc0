use crate::mix::mix;

/// Which sequences a step learns from: every epoch takes all of them in another order.
#[derive(Debug, Clone)]
pub(super) struct Order {
    sequences: usize,
    per_step: usize,
    seed: u64,
    /// The epoch whose order is known.
    epoch: Option<usize>,
    order: Vec<usize>,
}

impl Order {
    pub(super) fn new(sequences: usize, per_step: usize, seed: u64) -> Self {
        Self {
            sequences,
            per_step: per_step.clamp(1, sequences.max(1)),
            seed,
            epoch: None,
            order: Vec::new(),
        }
    }

    /// Steps of an epoch; the last one may take fewer sequences.
    pub(super) fn steps(&self) -> usize {
        self.sequences.div_ceil(self.per_step)
    }

    /// The sequences of step `step`, counted from 0: a function of the step alone, so that a resumed run goes on as if
    /// nothing had happened.
    pub(super) fn of(&mut self, step: usize) -> &[usize] {
        let (epoch, place) = (step / self.steps(), step % self.steps());
        if self.epoch != Some(epoch) {
            self.order = (0..self.sequences).collect();
            let seed = mix(self.seed, epoch as u64);
            self.order.sort_by_key(|&index| mix(seed, index as u64));
            self.epoch = Some(epoch);
        }
        let start = place * self.per_step;
        &self.order[start..self.sequences.min(start + self.per_step)]
    }
}

#[cfg(test)]
mod tests {
    use super::Order;

    #[test]
    fn an_epoch_has_everything_once_and_no_memory() {
        let mut order = Order::new(10, 4, 7);
        assert_eq!(order.steps(), 3);
        let epoch = |order: &mut Order, first: usize| -> Vec<usize> {
            (first..first + 3).flat_map(|step| order.of(step).to_vec()).collect()
        };
        let (one, two) = (epoch(&mut order, 0), epoch(&mut order, 3));
        assert_ne!(one, two);
        for mut all in [one.clone(), two.clone()] {
            all.sort_unstable();
            assert_eq!(all, (0..10).collect::<Vec<_>>());
        }
        assert_eq!(epoch(&mut Order::new(10, 4, 7), 3), two);
        assert_ne!(epoch(&mut Order::new(10, 4, 8), 0), one);
    }
}
