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
        // SAFETY: a backend with these kernels exists only where the features do.
        unsafe {
            match tile.rows.len() {
                1 => float::multiply::<W, 1>(weights, inputs, tile, out),
                2 => float::multiply::<W, 2>(weights, inputs, tile, out),
                3 => float::multiply::<W, 3>(weights, inputs, tile, out),
                4 => float::multiply::<W, 4>(weights, inputs, tile, out),
                8 => float::multiply::<W, 8>(weights, inputs, tile, out),
                rows => unreachable!("a tile of {rows} rows"),
            }
        }
    }

    fn unit<U: Unit>(self) {
        let Self { kind, weights, inputs, tile, out } = self;
        // SAFETY: a backend with these kernels exists only where the features do.
        unsafe {
            match tile.rows.len() {
                1 => unit::multiply::<U, 1>(kind, weights, inputs, tile, out),
                2 => unit::multiply::<U, 2>(kind, weights, inputs, tile, out),
                3 => unit::multiply::<U, 3>(kind, weights, inputs, tile, out),
                4 => unit::multiply::<U, 4>(kind, weights, inputs, tile, out),
                8 => unit::multiply::<U, 8>(kind, weights, inputs, tile, out),
                rows => unreachable!("a tile of {rows} rows"),
            }
        }
    }
}
