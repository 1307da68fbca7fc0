//! Functions of the outputs of a group.

use crate::pack::LANES;
use crate::{Isa, math};

/// `silu(gate) * up`.
pub(crate) fn glu(isa: Isa, gate: &[f32; LANES], up: &[f32; LANES]) -> [f32; LANES] {
    match isa {
        Isa::Scalar => std::array::from_fn(|lane| math::silu(gate[lane]) * up[lane]),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => crate::avx2::glu(gate, up),
        #[cfg(not(target_arch = "x86_64"))]
        Isa::Avx2 => unreachable!("not on this machine"),
    }
}

/// Per lane the sum of `exp(x - max)` over the chunks, in their order.
pub(crate) fn sum_exp(isa: Isa, chunks: &[[f32; LANES]], max: f32) -> [f32; LANES] {
    match isa {
        Isa::Scalar => sum_exp_scalar(chunks, max),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => crate::avx2::sum_exp(chunks, max),
        #[cfg(not(target_arch = "x86_64"))]
        Isa::Avx2 => unreachable!("not on this machine"),
    }
}

fn sum_exp_scalar(chunks: &[[f32; LANES]], max: f32) -> [f32; LANES] {
    let mut sum = [0.0; LANES];
    for chunk in chunks {
        sum.iter_mut().zip(chunk).for_each(|(sum, x)| *sum += math::exp(x - max));
    }
    sum
}
