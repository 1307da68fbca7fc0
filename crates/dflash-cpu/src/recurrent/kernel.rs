//! The arithmetic of recurrent layers, over fixed lanes. It is compiled for every instruction set; fused
//! operations stand in the source, so all of them give the same bits. Plain loops throughout: a closure that
//! is not inlined would be compiled without the instructions.

use crate::math;
use crate::rows::{Norm, normalize, sum_of_squares};

/// Columns of a state that are worked on together: with 128 rows they fill half of a first-level cache.
pub(crate) const WIDTH: usize = 32;

/// A row of a tile of a state.
pub(crate) type Columns = [f32; WIDTH];

/// Runs a kernel of this file as compiled for `$isa`.
macro_rules! on {
    ($isa:expr, $kernel:ident($($argument:expr),* $(,)?)) => {
        match $isa {
            $crate::Isa::Scalar => $crate::recurrent::kernel::$kernel($($argument),*),
            #[cfg(target_arch = "x86_64")]
            $crate::Isa::Avx2 | $crate::Isa::Avx512 => $crate::avx2::recurrent::$kernel($($argument),*),
            #[cfg(not(target_arch = "x86_64"))]
            $crate::Isa::Avx2 | $crate::Isa::Avx512 => unreachable!("not on this machine"),
        }
    };
}
pub(crate) use on;

/// `out = out + filter * x`.
#[inline(always)]
pub(crate) fn add_product(filter: &[f32], x: &[f32], out: &mut [f32]) {
    for ((out, filter), x) in out.iter_mut().zip(filter).zip(x) {
        *out = filter.mul_add(*x, *out);
    }
}

/// `x = silu(x)`.
#[inline(always)]
pub(crate) fn silu(x: &mut [f32]) {
    for x in x {
        *x = math::silu(*x);
    }
}

/// `x = scale * x / sqrt(sum x^2 + 1e-6)`.
#[inline(always)]
pub(crate) fn unit(x: &mut [f32], scale: f32) {
    let factor = scale / (sum_of_squares(x) + 1e-6).sqrt();
    for x in x {
        *x *= factor;
    }
}

/// `out = exp(rate * softplus(alpha + bias))`.
#[inline(always)]
pub(crate) fn decay(rate: &[f32], bias: &[f32], alpha: &[f32], out: &mut [f32]) {
    for (((out, rate), bias), alpha) in out.iter_mut().zip(rate).zip(bias).zip(alpha) {
        *out = math::exp(rate * math::softplus(alpha + bias));
    }
}

/// `out = sigmoid(beta)`.
#[inline(always)]
pub(crate) fn strength(beta: &[f32], out: &mut [f32]) {
    for (out, beta) in out.iter_mut().zip(beta) {
        *out = math::sigmoid(*beta);
    }
}

/// A step of the delta rule on a tile of a state, with decay `g` and strength `b`. `v` becomes
/// `delta = b * (v - g * S'k)`, the state what [`repeat`] makes of it, and `y = S'q` of that.
#[inline(always)]
pub(crate) fn step(
    state: &mut [Columns],
    (k, q): (&[f32], &[f32]),
    (g, b): (f32, f32),
    v: &mut [f32; WIDTH],
    y: &mut [f32; WIDTH],
) {
    let (mut delta, mut seen, mut read) = (*v, [0.0; WIDTH], [0.0; WIDTH]);
    for (row, &k) in state.iter().zip(k) {
        accumulate(row, k, &mut seen);
    }
    for (delta, seen) in delta.iter_mut().zip(seen) {
        *delta = b * (*delta - g * seen);
    }
    for ((row, &k), &q) in state.iter_mut().zip(k).zip(q) {
        // A copy, which stays in registers.
        let mut after = *row;
        write_row(&mut after, k, g, &delta);
        accumulate(&after, q, &mut read);
        *row = after;
    }
    (*v, *y) = (delta, read);
}

/// What a step left on the tape for a tile of a state.
#[derive(Clone, Copy)]
pub(crate) struct Taped<'a> {
    pub(crate) k: &'a [f32],
    pub(crate) g: f32,
    pub(crate) delta: [f32; WIDTH],
}

impl Taped<'_> {
    /// Holds a place.
    pub(crate) const NOTHING: Self = Self { k: &[], g: 0.0, delta: [0.0; WIDTH] };
}

/// `S = g * S + k delta'` on a tile of a state, step after step; a row goes through all of them at once.
#[inline(always)]
pub(crate) fn repeat(state: &mut [Columns], steps: &[Taped<'_>]) {
    for (index, row) in state.iter_mut().enumerate() {
        let mut after = *row;
        for step in steps {
            write_row(&mut after, step.k[index], step.g, &step.delta);
        }
        *row = after;
    }
}

/// The one way in which a row of a state is written, in a step and when it is repeated.
#[inline(always)]
fn write_row(row: &mut [f32; WIDTH], k: f32, g: f32, delta: &[f32; WIDTH]) {
    for (s, delta) in row.iter_mut().zip(delta) {
        *s = delta.mul_add(k, g * *s);
    }
}

/// `sum = sum + key * row`.
#[inline(always)]
fn accumulate(row: &[f32; WIDTH], key: f32, sum: &mut [f32; WIDTH]) {
    for (sum, s) in sum.iter_mut().zip(row) {
        *sum = s.mul_add(key, *sum);
    }
}

/// `out = rms_norm(y) * silu(gate)`.
#[inline(always)]
pub(crate) fn read_out(y: &[f32], norm: Norm<'_>, gate: &[f32], out: &mut [f32]) {
    normalize(y, norm, out);
    for (out, gate) in out.iter_mut().zip(gate) {
        *out *= math::silu(*gate);
    }
}

/// `out = after * (out + bias)`.
#[inline(always)]
pub(crate) fn gate_sum(bias: Option<&[f32]>, after: &[f32], out: &mut [f32]) {
    if let Some(bias) = bias {
        for (out, bias) in out.iter_mut().zip(bias) {
            *out += bias;
        }
    }
    for (out, after) in out.iter_mut().zip(after) {
        *out *= after;
    }
}
