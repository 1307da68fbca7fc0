//! The arithmetic of the kernels alone: operands stay in registers, nothing is read or unpacked. See
//! [`crate::ceiling`].

use std::arch::asm;
use std::arch::x86_64::*;
use std::hint::black_box;

use super::hold;
use crate::work::Arithmetic;

/// Sums that floats are added to in turn: more additions than a core has under way.
const CHAINS: usize = 12;

/// Input rows of a block, each with two vectors of outputs: enough that no addition waits for the one before.
const ROWS: usize = 2;

/// Integer sums of a block, sixteen outputs a row.
type Integers = [[__m256i; 2]; ROWS];

/// Runs the loop of `arithmetic`.
pub(crate) fn run(arithmetic: Arithmetic, rounds: usize) -> f32 {
    // SAFETY: a backend with these kernels exists only where the features do.
    unsafe {
        match arithmetic {
            Arithmetic::F32 => floats(rounds),
            Arithmetic::Int4 => blocks::<4>(rounds),
            Arithmetic::Int6 => blocks::<6>(rounds),
            Arithmetic::Int8 => blocks::<8>(rounds),
        }
    }
}

#[target_feature(enable = "avx2,fma")]
fn floats(rounds: usize) -> f32 {
    let (mut sums, x) = ([_mm256_setzero_ps(); CHAINS], _mm256_set1_ps(black_box(1.0)));
    for _ in 0..rounds {
        for sum in &mut sums {
            *sum = _mm256_fmadd_ps(x, x, *sum);
        }
    }
    sums.into_iter().map(|sum| total(sum)).sum()
}

/// A block of 32 inputs a round, scaled as it is and, below eight bits, with a minimum.
#[target_feature(enable = "avx2,fma")]
fn blocks<const BITS: u8>(rounds: usize) -> f32 {
    let mut w = if BITS == 8 { _mm256_set1_epi16(1) } else { _mm256_set1_epi8(1) };
    let x = opaque(w);
    let (mut scale, x_scale) = (_mm256_castps_si256(_mm256_set1_ps(1.0)), _mm256_set1_ps(black_box(1.0)));
    let (min, x_sum) = (_mm256_set1_ps(black_box(0.0)), x_scale);
    let mut sums = [_mm256_setzero_ps(); 2 * ROWS];
    for _ in 0..rounds {
        let integers = match BITS {
            4 => narrow(&mut w, x),
            6 => wide(&mut w, x),
            _ => words(&mut w, x),
        };
        for (sum, integer) in sums.iter_mut().zip(integers.as_flattened()) {
            scale = opaque(scale);
            let factor = _mm256_mul_ps(_mm256_castsi256_ps(scale), x_scale);
            *sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(*integer), factor, *sum);
            if BITS < 8 {
                *sum = _mm256_fmadd_ps(min, x_sum, *sum);
            }
        }
    }
    sums.into_iter().map(|sum| total(sum)).sum()
}

/// As the kernel of up to four bits: products are added in 16 bits to the end.
#[inline]
#[target_feature(enable = "avx2")]
fn narrow(w: &mut __m256i, x: __m256i) -> Integers {
    let mut sums = [[_mm256_setzero_si256(); 2]; ROWS];
    for _ in 0..4 {
        for sum in sums.as_flattened_mut() {
            let [low, high] = products(w, x);
            *sum = _mm256_add_epi16(_mm256_add_epi16(*sum, low), high);
        }
        hold(&mut sums);
    }
    for sum in sums.as_flattened_mut() {
        *sum = _mm256_madd_epi16(*sum, _mm256_set1_epi16(1));
    }
    sums
}

/// As the kernel of five and six bits: products of two quads are added in 16 bits, then in 32.
#[inline]
#[target_feature(enable = "avx2")]
fn wide(w: &mut __m256i, x: __m256i) -> Integers {
    let mut sums = [[_mm256_setzero_si256(); 2]; ROWS];
    for _ in 0..4 {
        for sum in sums.as_flattened_mut() {
            let [low, high] = products(w, x);
            let both = _mm256_madd_epi16(_mm256_add_epi16(low, high), _mm256_set1_epi16(1));
            *sum = _mm256_add_epi32(*sum, both);
        }
        hold(&mut sums);
    }
    sums
}

/// As the kernel of eight bits: both sides are words.
#[inline]
#[target_feature(enable = "avx2")]
fn words(w: &mut __m256i, x: __m256i) -> Integers {
    let mut sums = [[_mm256_setzero_si256(); 2]; ROWS];
    for _ in 0..16 {
        for sum in sums.as_flattened_mut() {
            *w = opaque(*w);
            *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(*w, x));
        }
        hold(&mut sums);
    }
    sums
}

/// Products of two quads, in pairs of 16 bits.
#[inline]
#[target_feature(enable = "avx2")]
fn products(w: &mut __m256i, x: __m256i) -> [__m256i; 2] {
    [(); 2].map(|()| {
        *w = opaque(*w);
        _mm256_maddubs_epi16(*w, x)
    })
}

/// The same value, of which the compiler does not know that it is the same: nothing made of it is taken out of
/// a loop or computed once for two uses.
#[inline]
#[target_feature(enable = "avx2")]
fn opaque(mut value: __m256i) -> __m256i {
    // SAFETY: no instruction at all.
    unsafe { asm!("/* {0} */", inout(ymm_reg) value, options(nomem, nostack, preserves_flags)) };
    value
}

/// Sum of the lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn total(sum: __m256) -> f32 {
    let mut lanes = [0.0; 8];
    // SAFETY: eight floats.
    unsafe { _mm256_storeu_ps(lanes.as_mut_ptr(), sum) };
    lanes.iter().sum()
}
