use serde::Serialize;

/// The middle and the ends of some numbers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The middle one, or the mean of the two in the middle.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// `None` without numbers.
    pub fn of(numbers: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut numbers: Vec<f64> = numbers.into_iter().collect();
        numbers.sort_by(f64::total_cmp);
        let (&min, &max) = (numbers.first()?, numbers.last()?);
        let half = numbers.len() / 2;
        let median =
            if numbers.len() % 2 == 1 { numbers[half] } else { (numbers[half - 1] + numbers[half]) / 2.0 };
        Some(Self { median, min, max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_and_the_ends() {
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([2.0]), Some(Spread { median: 2.0, min: 2.0, max: 2.0 }));
        assert_eq!(Spread::of([9.0, 1.0, 2.0]), Some(Spread { median: 2.0, min: 1.0, max: 9.0 }));
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 9.0]), Some(Spread { median: 3.0, min: 1.0, max: 9.0 }));
    }
}
