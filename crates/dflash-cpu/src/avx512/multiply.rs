use dflash_tensor::AffineScale;

use super::float;
use super::scale::Widen16;
use super::super_block::{Halves, Whole};
use super::unit::{self, Flat, Unit};

use crate::avx2::scale::{Brain, Half, Single};
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
        Kind::Super(Super::Q2K) => call.unit::<Halves<2, true, 0>>(),
        Kind::Super(Super::Q3K) => call.unit::<Halves<3, false, { Super::Q3K.zero() }>>(),
        Kind::Super(Super::Q4K) => call.unit::<Whole<4>>(),
        Kind::Super(Super::Q5K) => call.unit::<Whole<5>>(),
        Kind::Super(Super::Q6K) => call.unit::<Halves<6, false, { Super::Q6K.zero() }>>(),
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
    ($rows:expr, $module:ident, $type:ty, ($($argument:expr),*)) => {
        // SAFETY: a backend with these kernels exists only where the features do.
        unsafe {
            match $rows {
                1 => $module::multiply::<$type, 1>($($argument),*),
                2 => $module::multiply::<$type, 2>($($argument),*),
                3 => $module::multiply::<$type, 3>($($argument),*),
                4 => $module::multiply::<$type, 4>($($argument),*),
                5 => $module::multiply::<$type, 5>($($argument),*),
                6 => $module::multiply::<$type, 6>($($argument),*),
                7 => $module::multiply::<$type, 7>($($argument),*),
                8 => $module::multiply::<$type, 8>($($argument),*),
                rows => unreachable!("a tile of {rows} rows"),
            }
        }
    };
}

impl Call<'_> {
    fn flat(self, kind: pack::Flat) {
        match (kind.min, kind.bits) {
            (false, 4) => self.unit::<Flat<Half, 4, false, -8, 1>>(),
            (false, 5) => self.unit::<Flat<Half, 5, false, -16, 1>>(),
            (false, 8) => self.unit::<Flat<Half, 8, false, 0, 1>>(),
            (true, 2) => self.affine::<2, 0>(kind),
            (true, 3) => self.affine::<3, 0>(kind),
            (true, 4) => self.affine::<4, 0>(kind),
            (true, 5) => self.affine::<5, 0>(kind),
            (true, 6) => self.affine::<6, 0>(kind),
            (true, 8) => self.affine::<8, 128>(kind),
            _ => unreachable!("{kind:?} is not packed"),
        }
    }

    fn affine<const BITS: u8, const ZERO: i32>(self, kind: pack::Flat) {
        match kind.scale {
            AffineScale::F16 => self.group::<Half, BITS, ZERO>(kind.blocks),
            AffineScale::Bf16 => self.group::<Brain, BITS, ZERO>(kind.blocks),
            AffineScale::F32 => self.group::<Single, BITS, ZERO>(kind.blocks),
        }
    }

    fn group<S: Widen16, const BITS: u8, const ZERO: i32>(self, blocks: usize) {
        match blocks {
            1 => self.unit::<Flat<S, BITS, true, ZERO, 1>>(),
            2 => self.unit::<Flat<S, BITS, true, ZERO, 2>>(),
            4 => self.unit::<Flat<S, BITS, true, ZERO, 4>>(),
            _ => unreachable!("groups of {blocks} blocks"),
        }
    }

    fn float<W: Widen16>(self) {
        let Self { weights, inputs, tile, out, .. } = self;
        fixed!(tile.rows.len(), float, W, (weights, inputs, tile, out));
    }

    fn unit<U: Unit>(self) {
        let Self { kind, weights, inputs, tile, out } = self;
        fixed!(tile.rows.len(), unit, U, (kind, weights, inputs, tile, out));
    }
}
