use serde::{Deserialize, Serialize};

use crate::stopwatch::shared;
use crate::{Decoder, Effort, EngineError, Pass, Stopwatch};

/// Rows at which step times are measured, and the widest.
const WIDTHS: [usize; 5] = [1, 2, 4, 8, 16];

/// Seconds by rows, linear between measured points and beyond the last one.
///
/// ```
/// let curve = dflash_engine::Curve::new(vec![(1, 0.004), (4, 0.007)]);
/// assert_eq!(curve.at(1), 0.004);
/// assert!((curve.at(2) - 0.005).abs() < 1e-12);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<(usize, f64)>", into = "Vec<(usize, f64)>")]
pub struct Curve {
    points: Vec<(usize, f64)>,
}

impl Curve {
    /// Points by ascending rows.
    ///
    /// # Panics
    /// Without points, out of order, or with seconds that are not positive.
    pub fn new(points: Vec<(usize, f64)>) -> Self {
        Self::try_from(points).expect("ascending points with positive seconds")
    }

    /// Seconds at `rows`.
    pub fn at(&self, rows: usize) -> f64 {
        let after =
            self.points.partition_point(|point| point.0 < rows).clamp(1, self.points.len().max(2) - 1);
        let (Some(&(x1, y1)), (x0, y0)) = (self.points.get(after), self.points[after - 1]) else {
            return self.points[0].1;
        };
        (y0 + (y1 - y0) * (rows as f64 - x0 as f64) / (x1 - x0) as f64).max(0.0)
    }

    /// The measured points.
    pub fn points(&self) -> &[(usize, f64)] {
        &self.points
    }
}

impl TryFrom<Vec<(usize, f64)>> for Curve {
    type Error = &'static str;

    fn try_from(points: Vec<(usize, f64)>) -> Result<Self, Self::Error> {
        let ascending = points.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let positive = points.iter().all(|point| point.1.is_finite() && point.1 > 0.0);
        match !points.is_empty() && ascending && positive {
            true => Ok(Self { points }),
            false => Err("a curve has ascending rows and positive seconds"),
        }
    }
}

impl From<Curve> for Vec<(usize, f64)> {
    fn from(curve: Curve) -> Self {
        curve.points
    }
}

/// What a cycle costs on this machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepCosts {
    /// A pass of the target with the choice at every row, of all sequences together.
    pub verify: Curve,
    /// A proposal for so many rows, of all sequences that share it, per proposer; `None` where it costs nothing worth measuring.
    pub propose: Vec<Option<Curve>>,
}

impl StepCosts {
    /// Seconds of a cycle.
    pub fn cycle(&self, proposer: Option<usize>, width: usize) -> f64 {
        let propose = proposer.and_then(|index| self.propose[index].as_ref());
        self.verify.at(width) + propose.map_or(0.0, |curve| curve.at(width))
    }

    /// Whether these could be the costs of `decoder` with up to `sequences` sequences in a step: a curve for every
    /// proposer that has a cost, and as many rows as matter.
    pub fn fit(&self, decoder: &Decoder, sequences: usize) -> bool {
        let timed = |rows: usize| self.verify.points().iter().any(|point| point.0 == rows);
        if !shared(decoder.options().max_width(), sequences).all(timed) {
            return false;
        }
        let proposers = decoder.proposers();
        let needs = |index: usize| proposers[index].costly() && decoder.options().max_width() > 1;
        let known = |(index, curve): (usize, &Option<Curve>)| curve.is_some() || !needs(index);
        self.propose.len() == proposers.len() && self.propose.iter().enumerate().all(known)
    }

    /// Measures a decoder's target and proposers with up to `sequences` sequences in a step, see [`Stopwatch::time`].
    ///
    /// # Errors
    /// The backend's.
    pub fn measure(decoder: &Decoder, sequences: usize, step: &mut dyn FnMut()) -> Result<Self, EngineError> {
        let mut watch = Stopwatch::of_batch(decoder, sequences);
        let passes = watch.passes(&WIDTHS);
        let seconds = watch.time(&passes, Effort::QUICK, step)?;
        let timed: Vec<_> = passes.into_iter().zip(seconds).collect();
        Ok(Self::of(&timed, decoder.proposers().len()))
    }

    /// From the seconds of passes by ascending rows, among them some verification.
    pub fn of(timed: &[(Pass, f64)], proposers: usize) -> Self {
        let points = |rows: &dyn Fn(Pass) -> Option<usize>| {
            timed.iter().filter_map(|&(pass, seconds)| Some((rows(pass)?, seconds))).collect::<Vec<_>>()
        };
        let verify = points(&|pass| match pass {
            Pass::Verify(rows) => Some(rows),
            _ => None,
        });
        let propose = |index| {
            let points = points(&|pass| match pass {
                Pass::Propose { proposer, width } if proposer == index => Some(width),
                _ => None,
            });
            (!points.is_empty()).then(|| monotone(points))
        };
        Self { verify: monotone(verify), propose: (0..proposers).map(propose).collect() }
    }
}

/// No step is dearer than one of more rows, whatever was measured.
fn monotone(mut points: Vec<(usize, f64)>) -> Curve {
    let mut most = f64::INFINITY;
    for (_, seconds) in points.iter_mut().rev() {
        most = most.min(*seconds);
        *seconds = most;
    }
    Curve::new(points)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_between_points_and_beyond() {
        let curve = Curve::new(vec![(1, 1.0), (2, 1.5), (4, 2.5)]);
        assert_eq!([1, 2, 3, 4, 8].map(|rows| curve.at(rows)), [1.0, 1.5, 2.0, 2.5, 4.5]);
        assert_eq!(Curve::new(vec![(1, 3.0)]).at(9), 3.0);
        assert_eq!(Curve::new(vec![(2, 1.0), (4, 2.0)]).at(1), 0.5);
    }

    #[test]
    fn points_that_make_no_curve_are_refused() {
        for points in
            [vec![], vec![(2, 1.0), (1, 1.0)], vec![(1, 1.0), (1, 2.0)], vec![(1, 0.0)], vec![(1, f64::NAN)]]
        {
            assert!(Curve::try_from(points).is_err());
        }
    }

    #[test]
    fn costs_are_those_of_their_passes_and_grow_with_the_rows() {
        let propose = |proposer, width| Pass::Propose { proposer, width };
        let timed = [
            (Pass::Verify(1), 2.0),
            (Pass::Verify(2), 3.0),
            (Pass::Verify(4), 2.5),
            (Pass::Forward(1), 0.1),
            (propose(1, 2), 0.5),
            (propose(1, 4), 0.7),
        ];
        let costs = StepCosts::of(&timed, 2);
        assert_eq!(costs.verify.points(), [(1, 2.0), (2, 2.5), (4, 2.5)]);
        assert_eq!(costs.propose[0], None);
        assert_eq!(costs.propose[1], Some(Curve::new(vec![(2, 0.5), (4, 0.7)])));
        assert_eq!(costs.cycle(Some(1), 4), 3.2);
    }
}
