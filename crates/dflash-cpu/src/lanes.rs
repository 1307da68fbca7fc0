//! Functions of the outputs of a group.

use dflash_tensor::Activation;

use crate::pack::LANES;
use crate::{Isa, math};

/// `act(gate) * up`.
pub(crate) fn glu(isa: Isa, activation: Activation, gate: &[f32; LANES], up: &[f32; LANES]) -> [f32; LANES] {
    match isa {
        Isa::Scalar => std::array::from_fn(|lane| math::activate(activation, gate[lane]) * up[lane]),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 | Isa::Avx512 => crate::avx2::glu(activation, gate, up),
        #[cfg(not(target_arch = "x86_64"))]
        Isa::Avx2 | Isa::Avx512 => unreachable!("not on this machine"),
    }
}

/// `x = act(gate) * x`, any number of elements.
pub(crate) fn gate(isa: Isa, activation: Activation, gate: &[f32], x: &mut [f32]) {
    each_chunk(gate, x, |gate, x| *x = glu(isa, activation, gate, x));
}

/// `x = cap * tanh(x / cap)`, any number of elements.
pub(crate) fn softcap(isa: Isa, cap: f32, x: &mut [f32]) {
    let (chunks, rest) = x.as_chunks_mut::<LANES>();
    chunks.iter_mut().for_each(|x| *x = capped(isa, cap, x));
    rest.iter_mut().for_each(|x| *x = math::softcap(cap, *x));
}

/// `cap * tanh(x / cap)`.
pub(crate) fn capped(isa: Isa, cap: f32, x: &[f32; LANES]) -> [f32; LANES] {
    match isa {
        Isa::Scalar => x.map(|x| math::softcap(cap, x)),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 | Isa::Avx512 => crate::avx2::softcap(cap, x),
        #[cfg(not(target_arch = "x86_64"))]
        Isa::Avx2 | Isa::Avx512 => unreachable!("not on this machine"),
    }
}

/// Runs `body` over whole chunks; the last one is filled up with zeros.
fn each_chunk(a: &[f32], b: &mut [f32], mut body: impl FnMut(&[f32; LANES], &mut [f32; LANES])) {
    let ((wholes, rest), (targets, last)) = (a.as_chunks::<LANES>(), b.as_chunks_mut::<LANES>());
    wholes.iter().zip(targets).for_each(|(a, b)| body(a, b));
    let (mut x, mut y) = ([0.0; LANES], [0.0; LANES]);
    x[..rest.len()].copy_from_slice(rest);
    y[..last.len()].copy_from_slice(last);
    if !last.is_empty() {
        body(&x, &mut y);
        last.copy_from_slice(&y[..last.len()]);
    }
}

/// Per lane the sum of `exp(x - max)` over the chunks, in their order.
pub(crate) fn sum_exp(isa: Isa, chunks: &[[f32; LANES]], max: f32) -> [f32; LANES] {
    match isa {
        Isa::Scalar => sum_exp_scalar(chunks, max),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 | Isa::Avx512 => crate::avx2::sum_exp(chunks, max),
        #[cfg(not(target_arch = "x86_64"))]
        Isa::Avx2 | Isa::Avx512 => unreachable!("not on this machine"),
    }
}

fn sum_exp_scalar(chunks: &[[f32; LANES]], max: f32) -> [f32; LANES] {
    let mut sum = [0.0; LANES];
    for chunk in chunks {
        sum.iter_mut().zip(chunk).for_each(|(sum, x)| *sum += math::exp(x - max));
    }
    sum
}

/// `out = factor * x + out`, fused.
pub(crate) fn add_scaled(isa: Isa, factor: f32, x: &[f32], out: &mut [f32]) {
    match isa {
        Isa::Scalar => add_scaled_body(factor, x, out),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 | Isa::Avx512 => crate::avx2::add_scaled(factor, x, out),
        #[cfg(not(target_arch = "x86_64"))]
        Isa::Avx2 | Isa::Avx512 => unreachable!("not on this machine"),
    }
}

/// The body of [`add_scaled`], compiled for every instruction set.
#[inline(always)]
pub(crate) fn add_scaled_body(factor: f32, x: &[f32], out: &mut [f32]) {
    out.iter_mut().zip(x).for_each(|(out, x)| *out = factor.mul_add(*x, *out));
}
