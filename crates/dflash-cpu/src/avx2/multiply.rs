use std::arch::x86_64::*;
use std::ops::Range;

use dflash_tensor::AffineScale;

use super::quant::{AffineByte, AffineNibble, Byte, Nibble, Quant};
use super::scale::{Brain, Half, Single, Widen};
use super::{float, quant};
use crate::inputs::Inputs;
use crate::pack::{Kind, PackedPart};
use crate::quantize::QuantBlock;
use crate::tile::Products;

/// [`crate::tile::multiply`], before the bias.
pub(crate) fn multiply(
    part: &PackedPart,
    group: usize,
    inputs: &Inputs<'_>,
    rows: Range<usize>,
    out: &mut Products,
) {
    let call = Call { kind: part.kind, weights: part.group(group), inputs, rows, out };
    match part.kind {
        Kind::F32 => call.float::<Single>(),
        Kind::F16 => call.float::<Half>(),
        Kind::Bf16 => call.float::<Brain>(),
        Kind::Nibble => call.quant::<Nibble>(),
        Kind::Byte => call.quant::<Byte>(),
        Kind::AffineNibble { scale: AffineScale::F16, .. } => call.quant::<AffineNibble<Half>>(),
        Kind::AffineNibble { scale: AffineScale::Bf16, .. } => call.quant::<AffineNibble<Brain>>(),
        Kind::AffineNibble { scale: AffineScale::F32, .. } => call.quant::<AffineNibble<Single>>(),
        Kind::AffineByte { scale: AffineScale::F16, .. } => call.quant::<AffineByte<Half>>(),
        Kind::AffineByte { scale: AffineScale::Bf16, .. } => call.quant::<AffineByte<Brain>>(),
        Kind::AffineByte { scale: AffineScale::F32, .. } => call.quant::<AffineByte<Single>>(),
    }
}

struct Call<'a> {
    kind: Kind,
    weights: &'a [u8],
    inputs: &'a Inputs<'a>,
    rows: Range<usize>,
    out: &'a mut Products,
}

/// Calls `$module::multiply::<$type, rows>` with the number of rows as a constant.
macro_rules! fixed {
    ($rows:expr, $module:ident, $type:ty, $arguments:tt) => {
        // SAFETY: a backend with these kernels exists only where the features do.
        match $rows {
            1 => unsafe { fixed!(@ $module, $type, 1, $arguments) },
            2 => unsafe { fixed!(@ $module, $type, 2, $arguments) },
            3 => unsafe { fixed!(@ $module, $type, 3, $arguments) },
            4 => unsafe { fixed!(@ $module, $type, 4, $arguments) },
            rows => unreachable!("a tile of {rows} rows"),
        }
    };
    (@ $module:ident, $type:ty, $rows:literal, ($($argument:expr),*)) => {
        $module::multiply::<$type, $rows>($($argument),*)
    };
}

impl Call<'_> {
    fn float<W: Widen>(self) {
        let Self { weights, inputs, rows, out, .. } = self;
        fixed!(rows.len(), float, W, (weights, inputs, rows.start, out));
    }

    fn quant<Q: Quant>(self) {
        let Self { kind, weights, inputs, rows, out } = self;
        fixed!(rows.len(), quant, Q, (kind, weights, inputs, rows.start, out));
    }
}

/// Writes the sums of a tile.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn store<const R: usize>(sums: &[[__m256; 2]; R], out: &mut Products) {
    for (out, [low, high]) in out.iter_mut().zip(sums) {
        // SAFETY: an element of `out` is twice eight floats.
        unsafe {
            _mm256_storeu_ps(out.as_mut_ptr(), *low);
            _mm256_storeu_ps(out.as_mut_ptr().add(8), *high);
        }
    }
}

/// Activations `4*index..4*index+4` of a block in every lane.
///
/// # Safety
/// `block` is readable and `index` below 8.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn run(block: *const QuantBlock, index: usize) -> __m256i {
    // SAFETY: `q` begins the block, and run `index` lies in its 32 bytes.
    _mm256_set1_epi32(unsafe { block.cast::<i32>().add(index).read_unaligned() })
}

/// How far ahead weights are fetched. The machine's own prefetching ends at pages and begins anew for every
/// group, which left a single row at half of the bandwidth and did not overlap reading with several rows.
const AHEAD: usize = 2048;

/// Asks for the `bytes` bytes that are read [`AHEAD`] bytes after `position`.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn prefetch(position: *const u8, bytes: usize) {
    for line in (0..bytes).step_by(64) {
        // It never faults, wherever it points.
        _mm_prefetch::<_MM_HINT_T0>(position.wrapping_add(AHEAD + line).cast());
    }
}
