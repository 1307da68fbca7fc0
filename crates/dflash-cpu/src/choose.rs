//! The choice among the logits of a row without a row of logits.
//!
//! The vocabulary is cut into tiles of [`TILE`] ids whatever the threads; a tile gives its highest logit and
//! a sum of exponentials, and tiles are joined in their order.

use dflash_tensor::{Among, BackendError, Choice, Weight};

use crate::disjoint::Disjoint;
use crate::inputs::{Forms, Inputs, Request, room};
use crate::pack::{Guess, LANES, Packed, PackedPart, Walk};
use crate::pool::steps;
use crate::rows::sum;
use crate::tile::{self, NO_PRODUCTS};
use crate::{CpuBackend, Isa, lanes, math};

/// Ids of a tile.
const TILE: usize = 256;

/// Groups of a tile.
const TILE_GROUPS: usize = TILE / LANES;

/// Rows whose logits of one tile stand in memory together.
const CHUNK: usize = 16;

/// Logits of one tile of a row.
type Logits = [[f32; LANES]; TILE_GROUPS];

/// What a row has found in one tile.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) enum Found {
    /// Nothing yet.
    #[default]
    Nothing,
    /// The lowest id that is NaN.
    NotANumber(u32),
    /// Highest logit and the sum of `exp(logit - highest)`.
    Best { id: u32, logit: f32, sum: f32 },
}

/// Storage that is reused from call to call.
#[derive(Default)]
pub(crate) struct ChooseBuffers {
    found: Vec<Found>,
    logits: Vec<Logits>,
}

/// [`dflash_tensor::Backend::choose`].
pub(crate) fn choose(
    backend: &CpuBackend,
    weight: &Weight,
    request: &Request<'_>,
    among: Among,
    out: &mut Vec<Choice>,
) -> Result<(), BackendError> {
    let Among { vocab, softcap } = among;
    assert_eq!(request.x.cols, weight.cols(), "columns of input and weight");
    let packed = Packed::of(weight);
    let [part] = &packed.parts[..] else { panic!("a choice is made among the outputs of one part") };
    assert!((1..=part.rows).contains(&vocab), "{vocab} of {} outputs", part.rows);
    let mut scratch = backend.scratch();
    let scratch = &mut *scratch;
    let next = scratch.trail.step(packed, Walk::Along(TILE_GROUPS));
    let inputs = scratch.inputs.prepare(backend, Forms::of(backend.isa, &packed.parts), request);
    backend.meter.product(part, vocab, inputs.rows);
    let (tiles, threads) = (vocab.div_ceil(TILE), backend.pool.threads());
    let found = room(&mut scratch.choose.found, inputs.rows * tiles);
    let logits = room(&mut scratch.choose.logits, CHUNK * threads);
    let search = Search { isa: backend.isa, part, inputs, vocab, softcap, tiles };
    search.run(backend, found, logits, &next);
    for (row, found) in found.chunks_exact(tiles).enumerate() {
        out.push(join(found).map_err(|id| BackendError::NotANumber { row, id })?);
    }
    Ok(())
}

/// A search for the choices of all rows.
struct Search<'a> {
    isa: Isa,
    part: &'a PackedPart,
    inputs: Inputs<'a>,
    vocab: usize,
    softcap: Option<f32>,
    tiles: usize,
}

impl Search<'_> {
    /// Fills `found`, `[rows, tiles]`; every thread has [`CHUNK`] rows of `logits`.
    fn run(&self, backend: &CpuBackend, found: &mut [Found], logits: &mut [Logits], next: &Guess) {
        let threads = backend.pool.threads();
        let (found, logits) = (Disjoint::new(found), Disjoint::new(logits));
        backend.pool.split(self.tiles, &|thread, tiles| {
            // SAFETY: every thread has its own rows.
            let logits = unsafe { logits.piece(thread * CHUNK..(thread + 1) * CHUNK) };
            for index in tiles {
                for rows in steps(0..self.inputs.rows, CHUNK) {
                    self.fill(index, rows.start, &mut logits[..rows.len()]);
                    for (row, logits) in rows.zip(&mut *logits) {
                        let at = row * self.tiles + index;
                        // SAFETY: a tile belongs to one thread.
                        let found = unsafe { found.piece(at..at + 1) };
                        found[0] = self.find(index, logits);
                    }
                }
            }
            next.announce(thread, threads);
        });
    }

    /// Computes the logits of tile `index` for the rows from `first` on.
    fn fill(&self, index: usize, first: usize, logits: &mut [Logits]) {
        let begin = index * TILE_GROUPS;
        let end = (begin + TILE_GROUPS).min(self.vocab.div_ceil(LANES));
        let mut products = NO_PRODUCTS;
        for group in begin..end {
            for tile in tile::tiles(self.isa, self.part, group, &self.inputs, first..first + logits.len()) {
                tile::multiply(self.isa, self.part, &self.inputs, &tile, &mut products);
                let rows = tile.rows.start - first..tile.rows.end - first;
                for (logits, products) in logits[rows].iter_mut().zip(&products) {
                    logits[group - begin] = match self.softcap {
                        None => *products,
                        Some(cap) => lanes::capped(self.isa, cap, products),
                    };
                }
            }
        }
    }

    /// The best of the ids of tile `index`.
    fn find(&self, index: usize, logits: &mut Logits) -> Found {
        let first = index * TILE;
        let ids = (self.vocab - first).min(TILE);
        logits.as_flattened_mut()[ids..].fill(f32::NEG_INFINITY);
        let values = &logits.as_flattened()[..ids];
        if is_any_nan(logits) {
            let nan = values.iter().position(|value| value.is_nan()).expect("one was seen");
            return Found::NotANumber((first + nan) as u32);
        }
        let max = max(logits);
        let at = values.iter().position(|&value| value == max).expect("one is the highest");
        // An infinite maximum leaves no differences to take; the sum then counts the maximum alone.
        let sum = if max.is_finite() { sum(&lanes::sum_exp(self.isa, logits, max)) } else { 1.0 };
        Found::Best { id: (first + at) as u32, logit: values[at], sum }
    }
}

fn is_any_nan(logits: &Logits) -> bool {
    logits.as_flattened().iter().fold(false, |any, value| any | value.is_nan())
}

fn max(logits: &Logits) -> f32 {
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    let lanes = logits.iter().fold([f32::NEG_INFINITY; LANES], |lanes, chunk| {
        std::array::from_fn(|lane| larger(lanes[lane], chunk[lane]))
    });
    lanes.into_iter().fold(f32::NEG_INFINITY, larger)
}

/// Joins the tiles of a row in their order; the error is the lowest id that is NaN.
fn join(found: &[Found]) -> Result<Choice, u32> {
    let mut best: Option<(u32, f32)> = None;
    for found in found {
        match *found {
            Found::NotANumber(nan) => return Err(nan),
            Found::Best { id, logit, .. } if best.is_none_or(|(_, top)| logit > top) => {
                best = Some((id, logit))
            }
            _ => {}
        }
    }
    let (id, logit) = best.expect("a vocabulary has an id");
    Ok(Choice { id, logit, logsumexp: logsumexp(found, logit) })
}

fn logsumexp(found: &[Found], max: f32) -> f32 {
    if max.is_infinite() {
        return max;
    }
    let part = |found: &Found| match *found {
        Found::Best { logit, sum, .. } => sum * math::exp(logit - max),
        _ => 0.0,
    };
    max + math::ln(found.iter().map(part).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best(id: u32, logit: f32, sum: f32) -> Found {
        Found::Best { id, logit, sum }
    }

    #[test]
    fn lowest_id_wins_a_tie_between_tiles() {
        let choice = join(&[best(7, 1.0, 1.0), best(300, 2.0, 1.0), best(600, 2.0, 1.0)]).unwrap();
        assert_eq!((choice.id, choice.logit), (300, 2.0));
        let sum = 1.0_f64.exp() + 2.0 * 2.0_f64.exp();
        assert!((f64::from(choice.logsumexp) - sum.ln()).abs() < 1e-6);
    }

    #[test]
    fn lowest_nan_is_the_error() {
        let found = [best(7, 1.0, 1.0), Found::NotANumber(300), Found::NotANumber(601)];
        assert_eq!(join(&found), Err(300));
    }

    #[test]
    fn infinite_logits_do_not_become_nan() {
        let low = best(0, f32::NEG_INFINITY, 1.0);
        assert_eq!(join(&[low, low]).unwrap().logsumexp, f32::NEG_INFINITY);
        let high = best(300, f32::INFINITY, 1.0);
        assert_eq!(join(&[low, high]).unwrap().logsumexp, f32::INFINITY);
        assert_eq!(join(&[low, best(300, 1.5, 1.0)]).unwrap().logsumexp, 1.5);
    }
}
