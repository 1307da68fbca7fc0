use std::collections::HashMap;

use super::SamplingParams;

/// How often ids were there before a position.
///
/// It keeps the ids it counted and follows those it is asked for, so what it tells depends on these alone.
#[derive(Debug, Default)]
pub(super) struct Counts {
    ids: Vec<u32>,
    /// Leading ids that are the prompt.
    prompt: usize,
    seen: HashMap<u32, Seen>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Seen {
    prompt: u32,
    answer: u32,
}

impl Counts {
    /// Counts `ids` and `more`, of which the first `prompt` are the prompt.
    pub fn follow(&mut self, prompt: usize, ids: &[u32], more: &[u32]) {
        if self.prompt != prompt {
            *self = Self { prompt, ..Self::default() };
        }
        let common = common(&self.ids, ids);
        let common =
            if common == ids.len() { common + self::common(&self.ids[common..], more) } else { common };
        while self.ids.len() > common {
            self.pop();
        }
        let len = ids.len();
        ids.iter().chain(more).skip(common.min(len + more.len())).for_each(|&id| self.push(id));
    }

    /// Applies the penalties to a row of logits.
    pub fn penalise(&self, params: &SamplingParams, row: &mut [f32]) {
        for (&id, seen) in &self.seen {
            let Some(logit) = row.get_mut(id as usize) else { continue };
            let mut value = f64::from(*logit);
            value = if value > 0.0 {
                value / params.repetition_penalty
            } else {
                value * params.repetition_penalty
            };
            if seen.answer > 0 {
                value -= params.presence_penalty + params.frequency_penalty * f64::from(seen.answer);
            }
            *logit = value as f32;
        }
    }

    fn push(&mut self, id: u32) {
        let seen = self.seen.entry(id).or_default();
        match self.ids.len() < self.prompt {
            true => seen.prompt += 1,
            false => seen.answer += 1,
        }
        self.ids.push(id);
    }

    fn pop(&mut self) {
        let Some(id) = self.ids.pop() else { return };
        let Some(seen) = self.seen.get_mut(&id) else { return };
        match self.ids.len() < self.prompt {
            true => seen.prompt -= 1,
            false => seen.answer -= 1,
        }
        if *seen == Seen::default() {
            self.seen.remove(&id);
        }
    }
}

fn common(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn following_gives_what_a_fresh_count_gives() {
        let mut counts = Counts::default();
        for (prompt, ids, more) in [
            (2, &[1, 2, 3][..], &[][..]),
            (2, &[1, 2, 3], &[3, 3]),
            (2, &[1, 2, 3], &[3, 4, 1]),
            (2, &[1, 2, 3, 3, 4], &[]),
            (2, &[1, 2], &[]),
            (2, &[7, 2, 3], &[1]),
            (3, &[7, 2, 3], &[1]),
            (1, &[7], &[]),
            (1, &[], &[]),
            (4, &[7, 7, 7, 7], &[7]),
        ] {
            counts.follow(prompt, ids, more);
            let mut fresh = Counts::default();
            fresh.follow(prompt, ids, more);
            assert_eq!((&counts.ids, &counts.seen), (&[ids, more].concat(), &fresh.seen), "{ids:?} {more:?}");
        }
        assert_eq!(counts.seen[&7], Seen { prompt: 4, answer: 1 });
    }
}
