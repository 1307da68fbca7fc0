//! Portable loops that multiply and add without reading anything: what bounds the kernels of
//! [`crate::scalar`]. Every product is one, so the sum that a loop returns is the number of multiply-adds that
//! it made, as far as a float counts.

use std::hint::black_box;

use crate::Isa;
use crate::pack::{BLOCK, LANES};
use crate::work::Arithmetic;

/// Runs `rounds` rounds of the loop that has the arithmetic of the kernels of `isa`.
pub(crate) fn run(isa: Isa, arithmetic: Arithmetic, rounds: usize) -> f32 {
    match isa {
        Isa::Scalar if arithmetic == Arithmetic::F32 => floats(rounds),
        Isa::Scalar => integers(rounds),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => crate::avx2::ceiling::run(arithmetic, rounds),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => crate::avx512::ceiling::run(arithmetic, rounds),
        #[cfg(not(target_arch = "x86_64"))]
        Isa::Avx2 | Isa::Avx512 => unreachable!("not on this machine"),
    }
}

fn floats(rounds: usize) -> f32 {
    let (mut sums, x) = ([0.0_f32; LANES], black_box(1.0_f32));
    for _ in 0..rounds {
        for sum in &mut sums {
            *sum = x.mul_add(x, *sum);
        }
    }
    sums.iter().sum()
}

fn integers(rounds: usize) -> f32 {
    let (mut sums, scale) = ([0.0_f32; LANES], black_box(1.0_f32));
    for _ in 0..rounds {
        let (weights, mut integers) = (black_box([1_i32; LANES]), [0; LANES]);
        for x in black_box([1_i32; BLOCK]) {
            for (integer, weight) in integers.iter_mut().zip(weights) {
                *integer += weight * x;
            }
        }
        for (sum, integer) in sums.iter_mut().zip(integers) {
            *sum = (integer as f32).mul_add(scale * scale, *sum);
        }
    }
    sums.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_makes_every_multiply_add_that_it_is_given() {
        for isa in Isa::available() {
            for arithmetic in Arithmetic::ALL {
                let one = run(isa, arithmetic, 1);
                assert!(one >= 16.0, "{isa:?} {arithmetic:?}");
                assert_eq!(run(isa, arithmetic, 7), 7.0 * one, "{isa:?} {arithmetic:?}");
                assert_eq!(run(isa, arithmetic, 0), 0.0, "{isa:?} {arithmetic:?}");
            }
        }
    }
}
