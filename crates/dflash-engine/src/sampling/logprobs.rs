use super::filter::best;
use super::scale::Scale;

/// Alternatives that may be asked for.
pub const MOST_ALTERNATIVES: usize = 20;

/// An id that could have stood there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Alternative {
    /// The id.
    pub id: u32,
    /// Natural logarithm of its probability; `-inf` where it has none.
    pub logprob: f32,
}

/// Log-probabilities of the target's own logits at the position of an id, before bias, penalties and temperature.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenLogprobs {
    /// The id that was chosen.
    pub chosen: Alternative,
    /// The most probable ids, the best first, lower ids first on ties.
    pub top: Vec<Alternative>,
}

impl TokenLogprobs {
    /// Of `id`, with `alternatives` others. The row holds no NaN.
    pub(crate) fn of(row: &[f32], id: u32, alternatives: usize) -> Self {
        let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let scale = Scale::new(max, 1.0);
        let ln_total = libm::log(scale.total(row));
        let alternative =
            |id: u32| Alternative { id, logprob: (-scale.gap(row[id as usize]) - ln_total) as f32 };
        let mut ids = Vec::new();
        best(row, alternatives, &mut ids);
        Self { chosen: alternative(id), top: ids.into_iter().map(alternative).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_those_of_a_softmax_and_ties_go_by_id() {
        let row = [1.0_f32, 4.0, 2.0, 4.0, f32::NEG_INFINITY]
            .map(|parts| if parts > 0.0 { parts.ln() } else { parts });
        let told = TokenLogprobs::of(&row, 2, 3);
        let close = |found: f32, parts: f64| (f64::from(found) - (parts / 11.0).ln()).abs() < 1e-6;
        assert!(told.chosen.id == 2 && close(told.chosen.logprob, 2.0), "{told:?}");
        assert_eq!(told.top.iter().map(|other| other.id).collect::<Vec<_>>(), [1, 3, 2]);
        assert!(close(told.top[0].logprob, 4.0) && told.top[0].logprob == told.top[1].logprob);
        assert_eq!(TokenLogprobs::of(&row, 4, 0).chosen.logprob, f32::NEG_INFINITY);
        assert!(TokenLogprobs::of(&row, 0, 0).top.is_empty());
        assert_eq!(TokenLogprobs::of(&row, 0, 20).top.len(), 5);
    }
}
