//! Portable kernels: the bit oracle of the others.

pub(crate) mod attention;
mod float;
mod quant;

use half::{bf16, f16};

use crate::inputs::Inputs;
use crate::pack::{LANES, PackedPart};
use crate::tile::{Products, Tile};

/// [`crate::tile::multiply`], before the bias.
pub(crate) fn multiply(part: &PackedPart, inputs: &Inputs<'_>, tile: &Tile, out: &mut Products) {
    let weights = part.group(tile.group);
    for (row, out) in tile.rows.clone().zip(out) {
        *out = dot(part, weights, inputs, row);
    }
}

fn dot(part: &PackedPart, weights: &[u8], inputs: &Inputs<'_>, row: usize) -> [f32; LANES] {
    if part.kind.is_quantized() {
        let blocks = row * inputs.row_blocks()..(row + 1) * inputs.row_blocks();
        match part.kind.takes_bytes() {
            true => quant::dot(part.kind, weights, &inputs.blocks[blocks]),
            false => quant::dot(part.kind, weights, &inputs.wide[blocks]),
        }
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
