use std::arch::x86_64::*;

use super::byte::byte_sums;
use super::nibble::nibble_sums;
use super::scale::Widen;
use crate::inputs::Inputs;
use crate::pack::{Kind, LANES};
use crate::quantize::QuantBlock;
use crate::tile::Products;

/// What the compiler should know of a quantised kind.
pub(super) trait Quant {
    /// Type of scale and minimum.
    type Scale: Widen;
    /// Four bits or eight.
    const NIBBLE: bool;
    /// Whether there is a minimum.
    const MIN: bool;
    /// Added to a stored element.
    const ZERO: i32;
}

/// `scale * (q - 8)`.
pub(super) struct Nibble;
/// `scale * q`.
pub(super) struct Byte;
/// `scale * q + min`, four bits.
pub(super) struct AffineNibble<S>(S);
/// `scale * (q + 128) + min`, eight bits.
pub(super) struct AffineByte<S>(S);

impl Quant for Nibble {
    type Scale = super::scale::Half;
    const NIBBLE: bool = true;
    const MIN: bool = false;
    const ZERO: i32 = -8;
}

impl Quant for Byte {
    type Scale = super::scale::Half;
    const NIBBLE: bool = false;
    const MIN: bool = false;
    const ZERO: i32 = 0;
}

impl<S: Widen> Quant for AffineNibble<S> {
    type Scale = S;
    const NIBBLE: bool = true;
    const MIN: bool = true;
    const ZERO: i32 = 0;
}

impl<S: Widen> Quant for AffineByte<S> {
    type Scale = S;
    const NIBBLE: bool = false;
    const MIN: bool = true;
    const ZERO: i32 = 128;
}

/// Vectors of a block: 32 inputs of eight output rows.
const fn block_bytes(nibble: bool) -> usize {
    if nibble { 128 } else { 256 }
}

/// `G` groups of quantised weights against `R` input rows.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn multiply<Q: Quant, const R: usize, const G: usize>(
    kind: Kind,
    weights: &[u8],
    inputs: &Inputs<'_>,
    row: usize,
    out: &mut Products,
) {
    let (row_blocks, unit_blocks) = (inputs.row_blocks(), kind.unit_blocks());
    let (unit, group) = (kind.unit_bytes() * LANES, kind.row_bytes(inputs.cols) * LANES);
    let (weights, x) = (&weights[..G * group], &inputs.blocks[row * row_blocks..][..R * row_blocks]);
    assert!(unit >= unit_blocks * block_bytes(Q::NIBBLE) + Q::Scale::BYTES * LANES * (1 + usize::from(Q::MIN)));
    let mut sums = [[_mm256_setzero_ps(); R]; G];
    for index in 0..row_blocks / unit_blocks {
        // Unit `index` of every group lies in `weights`, and its blocks of every row in `x`.
        let units: [*const u8; G] =
            std::array::from_fn(|g| weights.as_ptr().wrapping_add(g * group + index * unit));
        let rows: [*const QuantBlock; R] =
            std::array::from_fn(|r| x.as_ptr().wrapping_add(r * row_blocks + index * unit_blocks));
        // SAFETY: the units and blocks are readable as just said, and the features are enabled here.
        unsafe { add_unit::<Q, R, G>(unit_blocks, units, rows, &mut sums) };
    }
    super::store(&sums, out);
}

/// # Safety
/// Every pointer of `units` has a whole unit, every one of `rows` its `blocks` blocks.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn add_unit<Q: Quant, const R: usize, const G: usize>(
    blocks: usize,
    units: [*const u8; G],
    rows: [*const QuantBlock; R],
    sums: &mut [[__m256; R]; G],
) {
    let elements = blocks * block_bytes(Q::NIBBLE);
    // SAFETY: scales, and minimums where there are any, follow the elements of a unit.
    let scales: [__m256; G] = std::array::from_fn(|g| unsafe { Q::Scale::widen(units[g].add(elements)) });
    let mins: [__m256; G] = std::array::from_fn(|g| match Q::MIN {
        // SAFETY: as above.
        true => unsafe { Q::Scale::widen(units[g].add(elements + Q::Scale::BYTES * LANES)) },
        false => _mm256_setzero_ps(),
    });
    for block in 0..blocks {
        let units = units.map(|unit| unit.wrapping_add(block * block_bytes(Q::NIBBLE)));
        let rows = rows.map(|row| row.wrapping_add(block));
        // SAFETY: block `block` of every unit and row is readable.
        let integers = unsafe {
            if Q::NIBBLE { nibble_sums::<R, G>(units, rows) } else { byte_sums::<R, G>(units, rows) }
        };
        for r in 0..R {
            // SAFETY: as above.
            let x = unsafe { &*rows[r] };
            for g in 0..G {
                sums[g][r] = add_block::<Q>(sums[g][r], integers[g][r], scales[g], mins[g], x);
            }
        }
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn add_block<Q: Quant>(sum: __m256, integer: __m256i, scale: __m256, min: __m256, x: &QuantBlock) -> __m256 {
    let integer = match Q::ZERO {
        0 => integer,
        zero => _mm256_add_epi32(integer, _mm256_set1_epi32(zero * x.total)),
    };
    let scale = _mm256_mul_ps(scale, _mm256_set1_ps(x.scale));
    let sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(integer), scale, sum);
    if Q::MIN { _mm256_fmadd_ps(min, _mm256_set1_ps(x.sum), sum) } else { sum }
}
