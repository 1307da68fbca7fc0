use std::arch::asm;
use std::arch::x86_64::*;

use dflash_tensor::AffineScale;

use super::quant::{AffineByte, AffineNibble, Byte, Nibble, Quant};
use super::scale::{Brain, Half, Single, Widen};
use super::{float, quant};
use crate::inputs::Inputs;
use crate::pack::{Kind, PackedPart};
use crate::tile::{Products, Tile};

/// [`crate::tile::multiply`], before the bias.
pub(crate) fn multiply(part: &PackedPart, inputs: &Inputs<'_>, tile: &Tile, out: &mut Products) {
    let call = Call { kind: part.kind, weights: part.group(tile.group), inputs, tile, out };
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
    tile: &'a Tile,
    out: &'a mut Products,
}

/// Calls `$module::multiply::<$type, rows>` with the number of rows as a constant.
macro_rules! fixed {
    ($rows:expr, $module:ident, $type:ty, $arguments:tt) => {
        match $rows {
            // SAFETY: a backend with these kernels exists only where the features do.
            1 => unsafe { fixed!(@ $module, $type, 1, $arguments) },
            // SAFETY: a backend with these kernels exists only where the features do.
            2 => unsafe { fixed!(@ $module, $type, 2, $arguments) },
            // SAFETY: a backend with these kernels exists only where the features do.
            3 => unsafe { fixed!(@ $module, $type, 3, $arguments) },
            // SAFETY: a backend with these kernels exists only where the features do.
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
        let Self { weights, inputs, tile, out, .. } = self;
        fixed!(tile.rows.len(), float, W, (weights, inputs, tile, out));
    }

    fn quant<Q: Quant>(self) {
        let Self { kind, weights, inputs, tile, out } = self;
        fixed!(tile.rows.len(), quant, Q, (kind, weights, inputs, tile, out));
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

/// Holds the sums of all rows in registers at this point. Left alone the compiler takes row after row, and
/// then keeps the unpacked weights of a whole block on the stack and reads them again for every row.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn hold<const R: usize>(sums: &mut [[__m256i; 2]; R]) {
    for sum in sums.as_flattened_mut() {
        // SAFETY: no instruction at all.
        unsafe { asm!("/* {0} */", inout(ymm_reg) * sum, options(nomem, nostack, preserves_flags)) };
    }
}

/// Asks for the `bytes` bytes that lie as far behind `position` as the next group.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn fetch(position: *const u8, group: usize, bytes: usize) {
    let position = position.wrapping_add(group);
    for line in (0..bytes).step_by(64) {
        // It never faults, wherever it points.
        _mm_prefetch::<_MM_HINT_T1>(position.wrapping_add(line).cast());
    }
}
