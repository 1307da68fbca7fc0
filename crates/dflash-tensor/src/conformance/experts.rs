//! A mixture of experts.

use super::data::{Exact, Random, all, assert_bits, assert_close, filled, wide};
use super::decode::{FORMATS, Matrix, is_quantised};
use super::linear::{ROUNDING, gated, product};
use crate::{Activation, Backend, Experts, Format};

/// A mixture and the matrices that it was made of.
struct Mixture {
    experts: Experts,
    /// Gate, up and down of every expert.
    matrices: Vec<[Matrix; 3]>,
    hidden: usize,
}

/// Formats of gate, up and down.
type Formats = [Format; 3];

impl Mixture {
    /// `count` experts; expert `e` has the formats `formats(e)`.
    fn random(
        backend: &dyn Backend,
        (count, top_k): (usize, usize),
        (hidden, ffn): (usize, usize),
        formats: &dyn Fn(usize) -> Formats,
        random: &mut Random,
    ) -> Self {
        let matrices: Vec<[Matrix; 3]> = (0..count)
            .map(|expert| {
                let [gate, up, down] = formats(expert);
                [(gate, ffn, hidden), (up, ffn, hidden), (down, hidden, ffn)]
                    .map(|(format, rows, cols)| Matrix::random(format, rows, cols, random))
            })
            .collect();
        let pack = |matrices: &[Matrix]| {
            let parts: Vec<_> = matrices.iter().map(Matrix::part).collect();
            backend.pack(&parts).expect("formats of the suite")
        };
        let experts = Experts {
            gate_up: matrices.iter().map(|matrices| pack(&matrices[..2])).collect(),
            down: matrices.iter().map(|matrices| pack(&matrices[2..])).collect(),
            activation: if count % 8 == 0 { Activation::GeluTanh } else { Activation::Silu },
            top_k,
            renormalise: top_k % 2 == 0,
            scale: None,
        };
        Self { experts, matrices, hidden }
    }

    fn count(&self) -> usize {
        self.matrices.len()
    }

    /// The output of rows `x` with the scores `scores`.
    fn run(&self, backend: &dyn Backend, scores: &[f32], x: &[f32]) -> Vec<f32> {
        let rows = x.len() / self.hidden;
        let mut out = filled(backend, self.hidden, &vec![f32::NAN; (rows + 1) * self.hidden]);
        let (scores, x) = (filled(backend, self.count(), scores), filled(backend, self.hidden, x));
        backend.experts(&self.experts, &scores, &x, &mut out);
        assert_eq!(out.rows(), rows, "rows of the output");
        all(backend, &out)
    }

    /// The output of one row in f64.
    fn exact(&self, scores: &[f32], x: &[f32]) -> Vec<Exact> {
        let mut out = vec![Exact::default(); self.hidden];
        for (expert, weight) in weights(&self.experts, scores) {
            for (out, y) in out.iter_mut().zip(self.expert(expert, &wide(x))) {
                out.value += weight * y.value;
                out.error += weight.abs() * (y.error + 1e-5 * y.value.abs());
            }
        }
        out
    }

    fn expert(&self, expert: usize, x: &[f64]) -> Vec<Exact> {
        let [gate, up, down] = &self.matrices[expert];
        let pairs = product(gate, x).into_iter().zip(product(up, x));
        let hidden: Vec<Exact> = pairs.map(|(gate, up)| gated(self.experts.activation, gate, up)).collect();
        let values: Vec<f64> = hidden.iter().map(|hidden| hidden.value).collect();
        let mut out = product(down, &values);
        for (row, out) in out.iter_mut().enumerate() {
            out.error +=
                down.row(row).iter().zip(&spread(down, &hidden)).map(|(w, e)| w.abs() * e).sum::<f64>();
        }
        out
    }
}

/// Errors of inputs. Where the inputs are rounded to eight bits, an error of the largest moves all steps.
fn spread(matrix: &Matrix, x: &[Exact]) -> Vec<f64> {
    let largest = |x: &[Exact]| x.iter().fold(0.0_f64, |max, x| max.max(x.error));
    let step = |x: &[Exact]| if is_quantised(matrix.format) { largest(x) / 127.0 } else { 0.0 };
    x.chunks(32).flat_map(|x| x.iter().map(move |exact| (1.0 + ROUNDING) * exact.error + step(x))).collect()
}

/// The experts of a row in the order of falling scores, and their weights in f64.
fn weights(experts: &Experts, scores: &[f32]) -> Vec<(usize, f64)> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    // Stable: the lower expert stays first.
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    let powers: Vec<f64> = scores.iter().map(|&score| f64::from(score).exp()).collect();
    let total: f64 = powers.iter().sum();
    order.truncate(experts.top_k);
    let sum = match experts.renormalise {
        true => order.iter().map(|&expert| powers[expert] / total).sum(),
        false => 1.0,
    };
    let scale = |expert: usize| experts.scale.as_ref().map_or(1.0, |scale| f64::from(scale[expert]));
    order.into_iter().map(|expert| (expert, powers[expert] / total / sum * scale(expert))).collect()
}

/// [`Backend::experts`]: formats alone and mixed, numbers of experts, both kinds of weights, ties.
///
/// # Panics
/// When the backend breaks its contract.
pub fn experts(backend: &dyn Backend) {
    let mut random = Random(41);
    for format in FORMATS {
        check(backend, (4, 2), (256, 256), &|_| [format; 3], &[1, 6], &mut random);
    }
    let mixed = |expert: usize| [0, 1, 2].map(|part| FORMATS[(3 * expert + 5 * part) % FORMATS.len()]);
    for count_and_top in [(5, 1), (8, 8), (16, 2), (30, 8), (64, 8)] {
        check(backend, count_and_top, (256, 256), &mixed, &[0, 11], &mut random);
    }
    // Widths that fill no group, and no vector.
    check(backend, (6, 3), (52, 37), &|expert| [FORMATS[expert % 3]; 3], &[1, 19], &mut random);
    ties(backend, &mut random);
    not_a_number(backend, &mut random);
}

fn check(
    backend: &dyn Backend,
    (count, top_k): (usize, usize),
    shape: (usize, usize),
    formats: &dyn Fn(usize) -> Formats,
    rows: &[usize],
    random: &mut Random,
) {
    let mut mixture = Mixture::random(backend, (count, top_k), shape, formats, random);
    for scaled in [false, true] {
        mixture.experts.renormalise ^= true;
        mixture.experts.scale = scaled.then(|| random.floats(count));
        for &rows in rows {
            let scores: Vec<f32> = random.floats(rows * count).iter().map(|score| 2.0 * score).collect();
            let x = random.floats(rows * mixture.hidden);
            let found = mixture.run(backend, &scores, &x);
            let pairs = scores.chunks(count).zip(x.chunks(mixture.hidden));
            let expected: Vec<Exact> = pairs.flat_map(|(scores, x)| mixture.exact(scores, x)).collect();
            let format = mixture.matrices[0][0].format;
            assert_close(&found, &expected, &format!("{rows} rows, {top_k} of {count} experts, {format}"));
        }
    }
}

/// The lower expert wins, also where a higher one ties for the last place.
fn ties(backend: &dyn Backend, random: &mut Random) {
    let mixture = Mixture::random(backend, (7, 2), (32, 32), &|_| [Format::F32; 3], random);
    let x = random.floats(32);
    for (tied, clear) in [
        ([1.0; 7], [2.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
        ([0.0, 3.0, 1.0, 5.0, 3.0, 3.0, 1.0], [0.0, 3.5, 1.0, 5.0, 3.0, 3.0, 1.0]),
    ] {
        let experts =
            |scores: &[f32]| weights(&mixture.experts, scores).into_iter().map(|(expert, _)| expert);
        assert!(experts(&tied).eq(experts(&clear)), "the cases name the same experts");
        let found = mixture.run(backend, &tied, &x);
        assert_close(&found, &mixture.exact(&tied, &x), "tied scores");
    }
}

/// A NaN among the scores makes its own row NaN, and no other.
fn not_a_number(backend: &dyn Backend, random: &mut Random) {
    let mixture = Mixture::random(backend, (9, 3), (64, 32), &|_| [Format::Q8_0; 3], random);
    let (mut scores, x) = (random.floats(4 * 9), random.floats(4 * 64));
    let whole = mixture.run(backend, &scores, &x);
    for expert in 0..9 {
        let before = std::mem::replace(&mut scores[2 * 9 + expert], f32::NAN);
        let found = mixture.run(backend, &scores, &x);
        assert!(found[2 * 64..3 * 64].iter().all(|value| value.is_nan()), "NaN for expert {expert}");
        assert_bits(&found[..2 * 64], &whole[..2 * 64], "rows before a NaN");
        assert_bits(&found[3 * 64..], &whole[3 * 64..], "the row behind a NaN");
        scores[2 * 9 + expert] = before;
    }
}

/// Row invariance of [`Backend::experts`]: rows alone, in calls of any size, and all with the same experts.
///
/// # Panics
/// When the backend breaks its contract.
pub fn experts_laws(backend: &dyn Backend) {
    let mut random = Random(42);
    let mixed = |expert: usize| [0, 1, 2].map(|part| FORMATS[(expert + 3 * part) % FORMATS.len()]);
    for (count, top_k) in [(4, 1), (14, 14), (20, 2), (64, 8)] {
        let mixture = Mixture::random(backend, (count, top_k), (256, 256), &mixed, &mut random);
        for rows in [7, 40] {
            let x = random.floats(rows * 256);
            let scores = random.floats(rows * count);
            split_law(backend, &mixture, &scores, &x, &mut random);
            let same = scores[..count].repeat(rows);
            split_law(backend, &mixture, &same, &x, &mut random);
        }
    }
}

fn split_law(backend: &dyn Backend, mixture: &Mixture, scores: &[f32], x: &[f32], random: &mut Random) {
    let (count, hidden) = (mixture.count(), mixture.hidden);
    let rows = x.len() / hidden;
    let whole = mixture.run(backend, scores, x);
    for longest in [1, 5, 16] {
        let (mut split, mut done) = (Vec::new(), 0);
        for part in random.split(rows, longest) {
            let own = done..done + part;
            split.extend(mixture.run(
                backend,
                &scores[own.start * count..own.end * count],
                &x[own.start * hidden..own.end * hidden],
            ));
            done += part;
        }
        let what = format!("{rows} rows to {} of {count} in calls of up to {longest}", mixture.experts.top_k);
        assert_bits(&split, &whole, &what);
    }
}
