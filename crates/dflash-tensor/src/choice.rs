/// The target's own token at a row, with what acceptance and width policies need to know of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    /// Highest logit; the lowest id on ties.
    pub id: u32,
    /// Its logit.
    pub logit: f32,
    /// ln of the sum of exp over all valid ids, so that `logit - logsumexp` is the log-probability.
    pub logsumexp: f32,
}

/// The one argmax of the project: highest value, lowest index on ties.
///
/// # Errors
/// The index of the first NaN. An empty slice is an error at index 0 too, as there is nothing to choose.
pub fn argmax(values: &[f32]) -> Result<usize, usize> {
    let mut best = None;
    for (index, &value) in values.iter().enumerate() {
        if value.is_nan() {
            return Err(index);
        }
        match best {
            Some((_, top)) if value <= top => {}
            _ => best = Some((index, value)),
        }
    }
    best.map(|(index, _)| index).ok_or(0)
}

#[cfg(test)]
mod tests {
    use super::argmax;

    #[test]
    fn lowest_index_wins_a_tie() {
        let mut values = [0.0; 12];
        (values[3], values[9]) = (5.0, 5.0);
        assert_eq!(argmax(&values), Ok(3));
        assert_eq!(argmax(&[-0.0, 0.0]), Ok(0));
        assert_eq!(argmax(&[f32::NEG_INFINITY; 4]), Ok(0));
    }

    #[test]
    fn nan_is_an_error_not_a_winner() {
        assert_eq!(argmax(&[1.0, f32::NAN, 2.0]), Err(1));
        assert_eq!(argmax(&[]), Err(0));
    }
}
