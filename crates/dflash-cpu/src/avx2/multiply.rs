use std::arch::asm;
use std::arch::x86_64::*;

use dflash_tensor::AffineScale;

use super::byte::Bytes;
use super::flat::Flat;
use super::planes::Planes;
use super::quant::{Elements, Quant};
use super::scale::{Brain, Half, Single, Widen};
use super::super_block::{Halves, Whole};
use super::{float, quant};
use crate::inputs::Inputs;
use crate::pack::{self, Kind, PackedPart, Super};
use crate::tile::{Products, Tile};

/// [`crate::tile::multiply`], before the bias.
pub(crate) fn multiply(part: &PackedPart, inputs: &Inputs<'_>, tile: &Tile, out: &mut Products) {
    let call = Call { kind: part.kind, weights: part.group(tile.group), inputs, tile, out };
    match part.kind {
        Kind::F32 => call.float::<Single>(),
        Kind::F16 => call.float::<Half>(),
        Kind::Bf16 => call.float::<Brain>(),
        Kind::Flat(flat) => call.flat(flat),
        Kind::Super(Super::Q2K) => call.quant::<Halves<2, true, 0>>(),
        Kind::Super(Super::Q3K) => call.quant::<Halves<3, false, { Super::Q3K.zero() as i16 }>>(),
        Kind::Super(Super::Q4K) => call.quant::<Whole<4>>(),
        Kind::Super(Super::Q5K) => call.quant::<Whole<5>>(),
        Kind::Super(Super::Q6K) => call.quant::<Halves<6, false, { Super::Q6K.zero() as i16 }>>(),
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

    fn flat(self, kind: pack::Flat) {
        match (kind.min, kind.bits) {
            (false, 4) => self.quant::<Flat<Planes<4>, Half, false, -8, 1>>(),
            (false, 5) => self.quant::<Flat<Planes<5>, Half, false, -16, 1>>(),
            (false, 8) => self.quant::<Flat<Bytes, Half, false, 0, 1>>(),
            (true, 2) => self.affine::<Planes<2>, 0>(kind),
            (true, 3) => self.affine::<Planes<3>, 0>(kind),
            (true, 4) => self.affine::<Planes<4>, 0>(kind),
            (true, 5) => self.affine::<Planes<5>, 0>(kind),
            (true, 6) => self.affine::<Planes<6>, 0>(kind),
            (true, 8) => self.affine::<Bytes, 128>(kind),
            _ => unreachable!("{kind:?} is not packed"),
        }
    }

    fn affine<E: Elements, const ZERO: i16>(self, kind: pack::Flat) {
        match kind.scale {
            AffineScale::F16 => self.group::<E, Half, ZERO>(kind.blocks),
            AffineScale::Bf16 => self.group::<E, Brain, ZERO>(kind.blocks),
            AffineScale::F32 => self.group::<E, Single, ZERO>(kind.blocks),
        }
    }

    fn group<E: Elements, S: Widen, const ZERO: i16>(self, blocks: usize) {
        match blocks {
            1 => self.quant::<Flat<E, S, true, ZERO, 1>>(),
            2 => self.quant::<Flat<E, S, true, ZERO, 2>>(),
            4 => self.quant::<Flat<E, S, true, ZERO, 4>>(),
            _ => unreachable!("groups of {blocks} blocks"),
        }
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
pub(crate) fn fetch(position: *const u8, group: usize, bytes: usize) {
    let position = position.wrapping_add(group);
    for line in (0..bytes).step_by(64) {
        // It never faults, wherever it points.
        _mm_prefetch::<_MM_HINT_T1>(position.wrapping_add(line).cast());
    }
}
