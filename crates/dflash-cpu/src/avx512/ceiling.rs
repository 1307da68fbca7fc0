//! The arithmetic of the kernels alone: operands stay in registers, nothing is read or unpacked. See
//! [`crate::ceiling`].

use std::arch::asm;
use std::arch::x86_64::*;
use std::hint::black_box;

use crate::work::Arithmetic;

/// Input rows of a tile.
const ROWS: usize = 8;

/// Runs the loop of `arithmetic`.
pub(crate) fn run(arithmetic: Arithmetic, rounds: usize) -> f32 {
    // SAFETY: a backend with these kernels exists only where the features do.
    unsafe {
        match arithmetic {
            Arithmetic::F32 => floats(rounds),
            Arithmetic::Int4 | Arithmetic::Int6 => blocks::<true>(rounds),
            Arithmetic::Int8 => blocks::<false>(rounds),
        }
    }
}

/// An input of two tiles a round.
#[target_feature(enable = "avx512f")]
fn floats(rounds: usize) -> f32 {
    let (w, x) = (_mm512_set1_ps(black_box(1.0)), _mm512_set1_ps(black_box(1.0)));
    let mut sums = [_mm512_setzero_ps(); 2 * ROWS];
    for _ in 0..rounds {
        for sum in &mut sums {
            *sum = _mm512_fmadd_ps(w, x, *sum);
        }
    }
    sums.into_iter().map(|sum| _mm512_reduce_add_ps(sum)).sum()
}

/// A block of 32 inputs a round, scaled as it is, with a minimum or, for signed elements, what was added to them.
#[target_feature(enable = "avx512f,avx512vnni")]
fn blocks<const MIN: bool>(rounds: usize) -> f32 {
    let (mut w, x) = (_mm512_set1_epi8(1), _mm512_set1_epi8(black_box(1)));
    let (mut scale, x_scale) = (_mm512_castps_si512(_mm512_set1_ps(1.0)), _mm512_set1_ps(black_box(1.0)));
    let (min, x_sum, zero) = (_mm512_set1_ps(black_box(0.0)), x_scale, _mm512_set1_epi32(black_box(0)));
    let mut sums = [_mm512_setzero_ps(); ROWS];
    for _ in 0..rounds {
        let mut integers = [_mm512_setzero_si512(); ROWS];
        for _ in 0..8 {
            for integer in &mut integers {
                w = opaque(w);
                *integer = _mm512_dpbusd_epi32(*integer, w, x);
            }
        }
        for (sum, mut integer) in sums.iter_mut().zip(integers) {
            if !MIN {
                integer = _mm512_add_epi32(integer, zero);
            }
            scale = opaque(scale);
            let factor = _mm512_mul_ps(_mm512_castsi512_ps(scale), x_scale);
            *sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(integer), factor, *sum);
            if MIN {
                *sum = _mm512_fmadd_ps(min, x_sum, *sum);
            }
        }
    }
    sums.into_iter().map(|sum| _mm512_reduce_add_ps(sum)).sum()
}

/// The same value, of which the compiler does not know that it is the same: nothing made of it is taken out of
/// a loop or computed once for two uses.
#[inline]
#[target_feature(enable = "avx512f")]
fn opaque(mut value: __m512i) -> __m512i {
    // SAFETY: no instruction at all.
    unsafe { asm!("/* {0} */", inout(zmm_reg) value, options(nomem, nostack, preserves_flags)) };
    value
}
