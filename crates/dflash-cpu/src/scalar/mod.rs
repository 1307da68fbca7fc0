//! Portable kernels: the bit oracle of the others.

pub(crate) mod attention;
mod float;
mod quant;

use std::ops::Range;

use half::{bf16, f16};

use crate::inputs::Inputs;
use crate::pack::{LANES, PackedPart};
use crate::tile::Products;

/// [`crate::tile::multiply`], before the bias.
pub(crate) fn multiply(
    part: &PackedPart,
    group: usize,
    inputs: &Inputs<'_>,
    rows: Range<usize>,
    out: &mut Products,
) {
    let weights = part.group(group);
    for (row, out) in rows.zip(out) {
        *out = dot(part, weights, inputs, row);
    }
}

fn dot(part: &PackedPart, weights: &[u8], inputs: &Inputs<'_>, row: usize) -> [f32; LANES] {
    if part.kind.is_quantized() {
        let blocks = inputs.row_blocks();
        quant::dot(part.kind, weights, &inputs.blocks[row * blocks..][..blocks])
    } else {
        float::dot(part.kind, weights, &inputs.values[row * inputs.cols..][..inputs.cols])
    }
}

fn f16_lane(bytes: &[u8]) -> f32 {
    f16::from_le_bytes([bytes[0], bytes[1]]).to_f32()
}

fn bf16_lane(bytes: &[u8]) -> f32 {
    bf16::from_le_bytes([bytes[0], bytes[1]]).to_f32()
}

fn f32_lane(bytes: &[u8]) -> f32 {
    f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}
