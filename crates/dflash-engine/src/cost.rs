use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use dflash_tensor::{SeqCache, Shape};

use crate::decoder::{Decoder, Scratch};
use crate::{EngineError, ProposeRequest};

/// Rows at which step times are measured.
const WIDTHS: [usize; 5] = [1, 2, 4, 8, 16];
/// Committed positions before the measured rows: short, since weights dominate a step.
const CONTEXT: usize = 16;
/// Repetitions; the fastest counts, as it is the one least disturbed.
const REPETITIONS: usize = 7;
/// Once the repetitions of a point have taken so long, no further one begins: a long pass is disturbed little.
const LONG: Duration = Duration::from_millis(200);

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
    /// A pass of the target with the choice at every row.
    pub verify: Curve,
    /// A proposal for so many rows, per proposer; `None` where it costs nothing worth measuring.
    pub propose: Vec<Option<Curve>>,
}

impl StepCosts {
    /// Seconds of a cycle.
    pub fn cycle(&self, proposer: Option<usize>, width: usize) -> f64 {
        let propose = proposer.and_then(|index| self.propose[index].as_ref());
        self.verify.at(width) + propose.map_or(0.0, |curve| curve.at(width))
    }

    /// Whether these could be the costs of `decoder`: a curve for every proposer that has a cost.
    pub fn fit(&self, decoder: &Decoder) -> bool {
        let proposers = decoder.proposers();
        let needs = |index: usize| proposers[index].costly() && decoder.options().max_width() > 1;
        let known = |(index, curve): (usize, &Option<Curve>)| curve.is_some() || !needs(index);
        self.propose.len() == proposers.len() && self.propose.iter().enumerate().all(known)
    }

    /// Measures a decoder's target and proposers, on a short sequence of its own; `step` is called before every
    /// pass.
    ///
    /// # Errors
    /// The backend's.
    pub fn measure(decoder: &Decoder, step: &mut dyn FnMut()) -> Result<Self, EngineError> {
        let mut scratch = decoder.scratch();
        let verify = verify_curve(decoder, &mut scratch, step)?;
        let propose = (0..decoder.proposers().len()).map(|index| match decoder.proposers()[index].costly() {
            true => propose_curve(decoder, &mut scratch, index, step),
            false => Ok(None),
        });
        Ok(Self { verify, propose: propose.collect::<Result<_, EngineError>>()? })
    }
}

fn widths(decoder: &Decoder) -> impl Iterator<Item = usize> {
    let most = decoder.options().max_width();
    WIDTHS.into_iter().filter(move |&width| width <= most)
}

/// The fastest of some runs of `once` at every width. Widths take turns, so that what disturbs the machine for
/// a moment does not fall on one of them; and no step is dearer than one of more rows, whatever was measured.
fn fastest(
    widths: impl Iterator<Item = usize>,
    mut once: impl FnMut(usize) -> Result<(), EngineError>,
) -> Result<Vec<(usize, f64)>, EngineError> {
    let mut runs: Vec<Runs> = widths.map(Runs::of).collect();
    for _ in 0..REPETITIONS {
        for runs in runs.iter_mut().filter(|runs| runs.spent <= LONG) {
            let began = Instant::now();
            once(runs.width)?;
            runs.add(began.elapsed());
        }
    }
    let mut most = Duration::MAX;
    for runs in runs.iter_mut().rev() {
        most = most.min(runs.best);
        runs.best = most;
    }
    Ok(runs.iter().map(|runs| (runs.width, runs.best.as_secs_f64())).collect())
}

/// Runs at one width.
struct Runs {
    width: usize,
    best: Duration,
    spent: Duration,
}

impl Runs {
    fn of(width: usize) -> Self {
        Self { width, best: Duration::MAX, spent: Duration::ZERO }
    }

    fn add(&mut self, took: Duration) {
        self.best = self.best.min(took);
        self.spent += took;
    }
}

/// One pass of the target over `rows` rows behind the cache, of which it then accepts `accept`.
fn pass(decoder: &Decoder, scratch: &mut Scratch, cache: &mut SeqCache, rows: usize, accept: usize) {
    scratch.batch.clear();
    scratch.batch.push(&vec![0; rows], cache.len(), Shape::Chain);
    cache.begin_verify(rows);
    decoder.forward(scratch, cache, true);
    cache.accept_chain(accept);
}

fn verify_curve(
    decoder: &Decoder,
    scratch: &mut Scratch,
    step: &mut dyn FnMut(),
) -> Result<Curve, EngineError> {
    let mut cache = decoder.target().new_cache();
    pass(decoder, scratch, &mut cache, CONTEXT, CONTEXT);
    let points = fastest(widths(decoder), |width| {
        step();
        pass(decoder, scratch, &mut cache, width, 0);
        decoder.choose_all(scratch)
    });
    Ok(Curve::new(points?))
}

fn propose_curve(
    decoder: &Decoder,
    scratch: &mut Scratch,
    index: usize,
    step: &mut dyn FnMut(),
) -> Result<Option<Curve>, EngineError> {
    let proposer = &decoder.proposers()[index];
    let mut state = proposer.new_state();
    pass(decoder, scratch, &mut decoder.target().new_cache(), CONTEXT, CONTEXT);
    proposer.observe(&mut state, scratch.tapped(), 0..CONTEXT, 0);
    let points = fastest(widths(decoder).filter(|&width| width > 1), |width| {
        step();
        scratch.drafted.clear();
        let (ids, drafted) = (&[0; CONTEXT + 1], &mut scratch.drafted);
        let request = ProposeRequest { state: &mut state, ids, width, drafted };
        let failed = |source| EngineError::Proposer { name: proposer.name(), source };
        proposer.propose(&mut [request]).map_err(failed)
    })?;
    Ok((!points.is_empty()).then(|| Curve::new(points)))
}

#[cfg(test)]
mod tests {
    use super::Curve;

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
}
