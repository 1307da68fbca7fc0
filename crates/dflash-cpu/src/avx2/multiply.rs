use std::arch::x86_64::*;

use dflash_tensor::AffineScale;

use super::quant::{AffineByte, AffineNibble, Byte, Nibble, Quant};
use super::scale::{Brain, Half, Single, Widen};
use super::{float, quant};
use crate::inputs::Inputs;
use crate::pack::{Kind, PackedPart};
use crate::quantize::QuantBlock;
use crate::tile::{Products, Tile};

/// [`crate::tile::multiply`].
pub(crate) fn multiply(part: &PackedPart, inputs: &Inputs<'_>, tile: Tile, out: &mut Products) {
    let call = Call { kind: part.kind, weights: part.span(tile.group, tile.groups), inputs, tile, out };
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
    tile: Tile,
    out: &'a mut Products,
}

/// Calls `$module::multiply::<$type, rows, groups>` with the numbers of rows and groups as constants.
macro_rules! fixed {
    ($tile:expr, $module:ident, $type:ty, $arguments:tt, $(($r:literal, $g:literal))*) => {
        match ($tile.rows, $tile.groups) {
            // SAFETY: a backend with these kernels exists only where the features do.
            $(($r, $g) => unsafe { fixed!(@ $module, $type, $r, $g, $arguments) },)*
            (rows, groups) => unreachable!("a tile of {rows} rows and {groups} groups"),
        }
    };
    (@ $module:ident, $type:ty, $r:literal, $g:literal, ($($argument:expr),*)) => {
        $module::multiply::<$type, $r, $g>($($argument),*)
    };
}

impl Call<'_> {
    fn float<W: Widen>(self) {
        let Self { weights, inputs, tile, out, .. } = self;
        fixed!(tile, float, W, (weights, inputs, tile.row, out),
            (1, 1) (1, 2) (1, 3) (1, 4) (2, 1) (2, 2) (3, 1) (3, 2) (4, 1) (4, 2));
    }

    fn quant<Q: Quant>(self) {
        let Self { kind, weights, inputs, tile, out } = self;
        fixed!(tile, quant, Q, (kind, weights, inputs, tile.row, out),
            (1, 1) (1, 2) (2, 1) (2, 2) (3, 1) (3, 2) (4, 1) (4, 2));
    }
}

/// Writes the sums of a tile.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn store<const R: usize, const G: usize>(sums: &[[__m256; R]; G], out: &mut Products) {
    for (out, sum) in out.iter_mut().zip(sums.iter().flatten()) {
        // SAFETY: an element of `out` is eight floats.
        unsafe { _mm256_storeu_ps(out.as_mut_ptr(), *sum) };
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
