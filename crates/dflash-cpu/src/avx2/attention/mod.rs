//! Attention of queries to one block with AVX2, FMA and F16C; the bits are those of
//! [`crate::scalar::attention`].
//!
//! Up to six queries share the loads of a block. In scores a lane is a key, in values a dimension, so
//! nothing is added across lanes but the sum of the probabilities.

mod multiply;
mod scores;
mod softmax;
mod tile;
mod values;
mod vector;

use std::arch::x86_64::*;

pub(crate) use tile::tiles;
pub(crate) use vector::Vector;

use crate::attention::kernel::{Later, State, Visit};

/// Lanes of a vector.
const LANES: usize = 8;

/// [`crate::attention::kernel::block`] for heads of a multiple of eight dimensions.
pub(crate) fn block(visit: Visit<'_>, state: &mut State<'_>) {
    // SAFETY: a backend takes this instruction set only where it was detected.
    unsafe { block_features(visit, state) }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn block_features(visit: Visit<'_>, state: &mut State<'_>) {
    // SAFETY: these are the features of the vectors.
    unsafe { tiles::<__m256, 2>(visit, state) }
}

/// [`crate::attention::kernel::join`] for a multiple of eight dimensions.
pub(crate) fn join(state: &mut State<'_>, later: Later<'_>, dim: usize) {
    // SAFETY: a backend takes this instruction set only where it was detected.
    unsafe { join_features(state, later, dim) }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn join_features(state: &mut State<'_>, later: Later<'_>, dim: usize) {
    let count = later.max.len();
    for start in (0..count).step_by(LANES) {
        let (mut slots, mut parts, mut seen) = ([0; LANES], [[0.0; 2]; LANES], 0);
        for index in (start..count.min(start + LANES)).filter(|&index| later.sum[index] != 0.0) {
            (slots[seen], parts[seen]) = (index, [later.max[index], later.sum[index]]);
            seen += 1;
        }
        let factors = softmax::factors(state, &slots[..seen], &parts[..seen]);
        for (&slot, [a, b]) in slots[..seen].iter().zip(factors) {
            let (a, b) = (_mm256_set1_ps(a), _mm256_set1_ps(b));
            let total = state.out[slot * dim..][..dim].chunks_exact_mut(LANES);
            let part = later.out[slot * dim..][..dim].chunks_exact(LANES);
            for (total, part) in total.zip(part) {
                // SAFETY: both chunks are eight floats.
                unsafe { values::blend(total.as_mut_ptr(), _mm256_loadu_ps(part.as_ptr()), a, b) };
            }
        }
    }
}
