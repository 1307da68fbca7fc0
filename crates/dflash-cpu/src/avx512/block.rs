use std::arch::x86_64::*;

use crate::pack::planes::{Field, QUADS, fields};
use crate::quantize::QuantBlock;

/// Integer sums of a half of a block, a lane per output row.
pub(super) type Integers<const R: usize> = [__m512i; R];

/// Adds the products of quads `FIRST..END` of a block to the sums of every row. Elements of eight bits are
/// taken as if 128 were added to them.
///
/// # Safety
/// `elements` points to a block of sixteen rows, `rows` to blocks, and the machine has AVX-512 with VNNI.
#[inline(always)]
pub(super) unsafe fn add_quads<const BITS: u8, const FIRST: usize, const END: usize, const R: usize>(
    elements: *const u8,
    rows: [*const QuantBlock; R],
    sums: &mut Integers<R>,
) {
    // SAFETY: the caller's promise.
    unsafe {
        for index in FIRST..END {
            let weights = quad::<BITS>(elements, index);
            for r in 0..R {
                let x = _mm512_set1_epi32(rows[r].cast::<i32>().add(index).read_unaligned());
                sums[r] = _mm512_dpbusd_epi32(sums[r], weights, x);
            }
        }
    }
}

/// Integer sums of a whole block.
///
/// # Safety
/// As [`add_quads`].
#[inline(always)]
pub(super) unsafe fn sums<const BITS: u8, const R: usize>(
    elements: *const u8,
    rows: [*const QuantBlock; R],
) -> Integers<R> {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [_mm512_setzero_si512(); R];
        add_quads::<BITS, 0, QUADS, R>(elements, rows, &mut sums);
        sums
    }
}

/// The unsigned elements of quad `index` in sixteen lanes.
///
/// # Safety
/// As [`add_quads`].
#[inline(always)]
unsafe fn quad<const BITS: u8>(elements: *const u8, index: usize) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe {
        if BITS == 8 {
            let signed = _mm512_loadu_si512(elements.cast::<__m512i>().add(index));
            return _mm512_xor_si512(signed, _mm512_set1_epi8(-128));
        }
        let [base, more] = fields(BITS, index);
        let base = take(elements, base);
        match more.mask {
            0 => base,
            _ => _mm512_or_si512(base, take(elements, more)),
        }
    }
}

/// A field's bits where they belong.
///
/// # Safety
/// As [`add_quads`].
#[inline(always)]
unsafe fn take(elements: *const u8, field: Field) -> __m512i {
    let Field { word, from, to, mask } = field;
    // SAFETY: the caller's promise. Counts of shifts are constants once the loop over quads is unrolled.
    unsafe {
        let word = _mm512_loadu_si512(elements.cast::<__m512i>().add(word));
        let moved = match from.checked_sub(to) {
            Some(0) => word,
            Some(right) => _mm512_srl_epi16(word, _mm_cvtsi32_si128(right as i32)),
            None => _mm512_sll_epi16(word, _mm_cvtsi32_si128((to - from) as i32)),
        };
        _mm512_and_si512(moved, _mm512_set1_epi8(mask as i8))
    }
}
