use std::collections::BTreeSet;
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
    /// The target over so many rows, with the choice at every row. More than a block has are those of several
    /// sequences, as are those of the other passes.
    Verify(usize),
    /// The target over so many rows, without any choice.
    Forward(usize),
    /// A proposal for `width` rows, the staged ones included.
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

/// Rows at which steps of several sequences are timed: also just behind the sizes that kernels have, as one row more may
/// cost as much as the first.
const SHARED: [usize; 11] = [3, 6, 9, 12, 17, 24, 25, 32, 33, 48, 64];
/// Sequences that share a proposal when it is timed.
const MATES: [usize; 2] = [2, 4];

/// Rows at which steps are timed where up to `sequences` sequences of `width` rows share them.
pub(crate) fn shared(width: usize, sequences: usize) -> impl Iterator<Item = usize> {
    SHARED.into_iter().filter(move |&rows| sequences > 1 && rows <= width * sequences)
}

/// Times the passes of a decoder, on short sequences of its own.
pub struct Stopwatch<'a> {
    decoder: &'a Decoder,
    scratch: Scratch,
    /// Of every sequence.
    caches: Vec<SeqCache>,
    /// Of the proposers that cost something, of every sequence.
    states: Vec<Vec<ProposerState>>,
    /// Of a sequence and of its staged token.
    ids: Vec<u32>,
    drafted: Vec<Vec<u32>>,
    confidence: Vec<Vec<f32>>,
}

impl<'a> Stopwatch<'a> {
    /// Computes the sequence that passes follow.
    pub fn new(decoder: &'a Decoder) -> Self {
        Self::of_batch(decoder, 1)
    }

    /// Computes as many of them as share a step at most.
    pub fn of_batch(decoder: &'a Decoder, sequences: usize) -> Self {
        let (target, width) = (decoder.target(), decoder.options().max_width());
        let context = target.spec().context.saturating_sub(width).clamp(1, CONTEXT);
        let mut scratch = Scratch::new(decoder);
        let (mut cache, prompt) = (target.new_cache(), ids(context, target.spec().vocab));
        scratch.batch.push(&prompt, 0, Shape::Chain);
        cache.begin_prefill(context);
        target.forward(&mut scratch.workspace, &scratch.batch, &mut [&mut cache], scratch.taps.as_mut());
        cache.accept_chain(context);
        let tapped = scratch.taps.as_ref().map(Taps::rows);
        let states = decoder.proposers().iter().map(|proposer| {
            let new = |_| {
                let mut state = proposer.new_state();
                proposer.observe(&mut state, tapped, 0..context, 0);
                state
            };
            (0..sequences).filter(|_| proposer.costly()).map(new).collect()
        });
        let states = states.collect();
        Self {
            decoder,
            scratch,
            caches: (0..sequences).map(|_| cache.snapshot()).collect(),
            states,
            ids: ids(context + 1, target.spec().vocab),
            drafted: vec![Vec::new(); sequences],
            confidence: vec![Vec::new(); sequences],
        }
    }

    /// Positions before the rows of a pass.
    pub fn context(&self) -> usize {
        self.caches[0].len()
    }

    /// Rows of a sequence at most.
    fn width(&self) -> usize {
        let room = self.decoder.target().spec().context.saturating_sub(self.context());
        self.decoder.options().max_width().min(room).max(1)
    }

    /// Rows that a proposer, which costs something, proposes for at most.
    fn block(&mut self, proposer: usize) -> usize {
        let most = self.width();
        let offer = self.decoder.proposers()[proposer].offer(&mut self.states[proposer][0], &self.ids);
        most.min(offer.ids + 1)
    }

    /// For each of `widths` that the decoder takes, for its widest, and for what its sequences have together: the
    /// verification, and every proposal that costs something, as far as its proposer goes.
    pub fn passes(&mut self, widths: &[usize]) -> Vec<Pass> {
        let sequences = self.caches.len();
        let alone = |most: usize| widths.iter().copied().filter(move |&width| width < most).chain([most]);
        let most = self.width();
        let rows: BTreeSet<usize> = alone(most).chain(shared(most, sequences)).collect();
        let mut passes: Vec<Pass> = rows.into_iter().map(Pass::Verify).collect();
        for proposer in 0..self.states.len() {
            if self.states[proposer].is_empty() {
                continue;
            }
            let most = self.block(proposer);
            let mates = MATES.into_iter().filter(|&mates| mates <= sequences).map(|mates| mates * most);
            let widths = alone(most).chain(mates).filter(|&width| width > 1);
            passes.extend(widths.map(|width| Pass::Propose { proposer, width }));
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
                self.forward(rows);
                Ok(())
            }
            Pass::Verify(rows) => {
                self.forward(rows);
                self.scratch.listed.clear();
                self.scratch.listed.extend(0..rows);
                self.scratch.choose(self.decoder)
            }
            Pass::Propose { proposer, width } => self.propose(proposer, width),
        }
    }

    /// The target over `rows` rows behind the caches, of which these accept none.
    fn forward(&mut self, rows: usize) {
        let most = self.width();
        let Self { decoder, scratch: Scratch { workspace, batch, taps, .. }, caches, .. } = self;
        let ids = ids(rows, decoder.target().spec().vocab);
        batch.clear();
        let mut caches: Vec<&mut SeqCache> = caches.iter_mut().take(rows.div_ceil(most)).collect();
        for (ids, cache) in ids.chunks(most).zip(&mut caches) {
            batch.push(ids, cache.len(), Shape::Chain);
            cache.begin_verify(ids.len());
        }
        decoder.target().forward(workspace, batch, &mut caches, taps.as_mut());
        caches.into_iter().for_each(|cache| cache.accept_chain(0));
    }

    fn propose(&mut self, index: usize, width: usize) -> Result<(), EngineError> {
        let (most, proposer) = (self.block(index), &self.decoder.proposers()[index]);
        let Self { states, ids, drafted, confidence, .. } = self;
        let said = drafted.iter_mut().zip(confidence);
        let requests = states[index].iter_mut().zip(said).take(width.div_ceil(most));
        let requests = requests.map(|(state, (drafted, confidence))| {
            drafted.clear();
            confidence.clear();
            ProposeRequest { state, ids, rule: None, width: width.min(most), ranks: 1, drafted, confidence }
        });
        let failed = |source| EngineError::Proposer { name: proposer.name(), source };
        proposer.propose(&mut requests.collect::<Vec<_>>()).map_err(failed)
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
