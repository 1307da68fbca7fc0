use std::arch::x86_64::*;

use half::f16;

use super::vector::Vector;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Bytes of a page.
const PAGE: usize = 4096;

/// Begins to fetch `numbers`: the first of every page, so that the addresses of all pages are looked up at the
/// same time.
#[inline(always)]
pub(super) fn fetch_pages(numbers: &[f16]) {
    for page in numbers.chunks(PAGE / size_of::<f16>()) {
        // SAFETY: fetching is no access.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(page.as_ptr().cast()) };
    }
}

/// `sums[i][j] += *factors[i] * numbers[LANES*j..]`, in an order that needs the fewest registers. Meanwhile the
/// numbers at `next` are fetched.
///
/// # Safety
/// `LANES * N` numbers and all factors can be read, and the machine has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn multiply<V: Vector, const Q: usize, const N: usize>(
    sums: &mut [[V; N]; Q],
    numbers: *const f16,
    next: *const f16,
    factors: [*const f32; Q],
) {
    for line in (0..2 * V::LANES * N).step_by(LINE) {
        // SAFETY: fetching is no access.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(next.cast::<i8>().wrapping_add(line)) };
    }
    // SAFETY: the caller's promise.
    unsafe {
        if Q < N {
            let mut broadcast = [V::zero(); Q];
            for (to, from) in broadcast.iter_mut().zip(factors) {
                *to = V::broadcast(*from);
            }
            for index in 0..N {
                let numbers = V::widen(numbers.add(index * V::LANES));
                for (sums, &factor) in sums.iter_mut().zip(&broadcast) {
                    sums[index] = factor.multiply_add(numbers, sums[index]);
                }
            }
        } else {
            let mut wide = [V::zero(); N];
            for (index, wide) in wide.iter_mut().enumerate() {
                *wide = V::widen(numbers.add(index * V::LANES));
            }
            for (sums, factor) in sums.iter_mut().zip(factors) {
                let factor = V::broadcast(*factor);
                for (sum, &numbers) in sums.iter_mut().zip(&wide) {
                    *sum = factor.multiply_add(numbers, *sum);
                }
            }
        }
    }
}
