use std::time::{Duration, Instant};

use dflash_models::Taps;
use dflash_tensor::{SeqCache, Shape};

use crate::scratch::Scratch;
use crate::{Decoder, EngineError, ProposeRequest, ProposerState};

/// Committed positions before the measured rows: short, since weights dominate a step.
const CONTEXT: usize = 64;

/// What is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// The target over so many rows, with the choice at every row.
    Verify(usize),
    /// The target over so many rows, without any choice.
    Forward(usize),
    /// A proposal for `width` rows, the staged one included.
    Propose {
        /// Index of the proposer.
        proposer: usize,
        /// Rows.
        width: usize,
    },
}

/// How often a pass is repeated: so many times, but not again once its repetitions took so long, as a long pass is
/// disturbed little.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    repetitions: usize,
    long: Duration,
}

impl Effort {
    /// Enough to pick widths by.
    pub const QUICK: Self = Self { repetitions: 15, long: Duration::from_millis(200) };
    /// Enough to print.
    pub const THOROUGH: Self = Self { repetitions: 25, long: Duration::from_secs(1) };
}

/// Times the passes of a decoder, on a short sequence of its own.
pub struct Stopwatch<'a> {
    decoder: &'a Decoder,
    scratch: Scratch,
    cache: SeqCache,
    /// Of the proposers that cost something.
    states: Vec<Option<ProposerState>>,
    /// Of the sequence and of the staged token.
    ids: Vec<u32>,
    drafted: Vec<u32>,
    confidence: Vec<f32>,
}

impl<'a> Stopwatch<'a> {
    /// Computes the sequence that passes follow.
    pub fn new(decoder: &'a Decoder) -> Self {
        let (spec, width) = (decoder.target().spec(), decoder.options().max_width());
        let context = spec.context.saturating_sub(width).clamp(1, CONTEXT);
        let mut watch = Self {
            decoder,
            scratch: Scratch::new(decoder),
            drafted: Vec::new(),
            confidence: Vec::new(),
            cache: decoder.target().new_cache(),
            states: Vec::new(),
            ids: ids(context + 1, spec.vocab),
        };
        watch.forward(context, context);
        let (proposers, tapped) = (decoder.proposers().iter(), watch.scratch.taps.as_ref().map(Taps::rows));
        let state = proposers.map(|proposer| {
            proposer.costly().then(|| {
                let mut state = proposer.new_state();
                proposer.observe(&mut state, tapped, 0..context, 0);
                state
            })
        });
        watch.states = state.collect();
        watch
    }

    /// Positions before the rows of a pass.
    pub fn context(&self) -> usize {
        self.cache.len()
    }

    /// For each of `widths` that the decoder takes, and for its widest: the verification, and every proposal that
    /// costs something.
    pub fn passes(&self, widths: &[usize]) -> Vec<Pass> {
        let context = self.decoder.target().spec().context;
        let most = self.decoder.options().max_width().min(context.saturating_sub(self.context())).max(1);
        let mut widths: Vec<usize> = widths.iter().copied().filter(|&width| width < most).collect();
        widths.push(most);
        let mut passes: Vec<Pass> = widths.iter().map(|&width| Pass::Verify(width)).collect();
        for (proposer, state) in self.states.iter().enumerate() {
            let widths = widths.iter().filter(|&&width| width > 1 && state.is_some());
            passes.extend(widths.map(|&width| Pass::Propose { proposer, width }));
        }
        passes
    }

    /// The median seconds of each of `passes`, which take turns, so that what disturbs the machine for a moment
    /// does not fall on one of them. `step` is called before every pass.
    ///
    /// # Errors
    /// The backend's.
    pub fn time(
        &mut self,
        passes: &[Pass],
        effort: Effort,
        step: &mut dyn FnMut(),
    ) -> Result<Vec<f64>, EngineError> {
        let mut runs: Vec<Runs> = passes.iter().map(|_| Runs::default()).collect();
        for _ in 0..effort.repetitions {
            for (&pass, runs) in passes.iter().zip(&mut runs).filter(|(_, runs)| runs.spent <= effort.long) {
                step();
                let began = Instant::now();
                self.run(pass)?;
                runs.add(began.elapsed());
            }
        }
        Ok(runs.into_iter().map(Runs::median).collect())
    }

    /// Runs a pass, which leaves the sequence as it was.
    ///
    /// # Errors
    /// The backend's.
    pub fn run(&mut self, pass: Pass) -> Result<(), EngineError> {
        match pass {
            Pass::Forward(rows) => {
                self.forward(rows, 0);
                Ok(())
            }
            Pass::Verify(rows) => {
                self.forward(rows, 0);
                self.scratch.listed.clear();
                self.scratch.listed.extend(0..rows);
                self.scratch.choose(self.decoder)
            }
            Pass::Propose { proposer, width } => self.propose(proposer, width),
        }
    }

    /// The target over `rows` rows behind the cache, of which it then accepts `accept`.
    fn forward(&mut self, rows: usize, accept: usize) {
        let Self { decoder, scratch, cache, .. } = self;
        scratch.batch.clear();
        scratch.batch.push(&ids(rows, decoder.target().spec().vocab), cache.len(), Shape::Chain);
        cache.begin_verify(rows);
        let Scratch { workspace, batch, taps, .. } = scratch;
        decoder.target().forward(workspace, batch, &mut [cache], taps.as_mut());
        cache.accept_chain(accept);
    }

    fn propose(&mut self, index: usize, width: usize) -> Result<(), EngineError> {
        let proposer = &self.decoder.proposers()[index];
        let state = self.states[index].as_mut().expect("a proposer that costs something");
        self.drafted.clear();
        self.confidence.clear();
        let (ids, drafted, confidence) = (&self.ids[..], &mut self.drafted, &mut self.confidence);
        let failed = |source| EngineError::Proposer { name: proposer.name(), source };
        let request = ProposeRequest { state, ids, rule: None, width, ranks: 1, drafted, confidence };
        proposer.propose(&mut [request]).map_err(failed)
    }
}

/// Different ids, as rows of one id would all take the same experts.
fn ids(count: usize, vocab: usize) -> Vec<u32> {
    (0..count).map(|index| ((7 * index + 1) % vocab) as u32).collect()
}

/// Runs of one pass.
#[derive(Default)]
struct Runs {
    took: Vec<Duration>,
    spent: Duration,
}

impl Runs {
    fn add(&mut self, took: Duration) {
        self.took.push(took);
        self.spent += took;
    }

    fn median(mut self) -> f64 {
        self.took.sort();
        self.took[self.took.len() / 2].as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_the_runs_counts() {
        let mut runs = Runs::default();
        [5, 1, 900, 2, 3].into_iter().for_each(|seconds| runs.add(Duration::from_secs(seconds)));
        assert_eq!((runs.spent, runs.median()), (Duration::from_secs(911), 3.0));
    }

    #[test]
    fn rows_differ_and_stay_in_the_vocabulary() {
        assert_eq!(ids(4, 10), [1, 8, 5, 2]);
        assert_eq!(ids(2, 1), [0, 0]);
    }
}
