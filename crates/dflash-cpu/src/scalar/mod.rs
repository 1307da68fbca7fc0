//! Portable kernels: the bit oracle of the others.

mod float;
mod quant;

use half::{bf16, f16};

use crate::inputs::Inputs;
use crate::pack::{LANES, PackedPart};
use crate::tile::{Products, Tile};

/// [`crate::tile::multiply`].
pub(crate) fn multiply(part: &PackedPart, inputs: &Inputs<'_>, tile: Tile, out: &mut Products) {
    for group in 0..tile.groups {
        let weights = part.span(tile.group + group, 1);
        for row in 0..tile.rows {
            out[group * tile.rows + row] = dot(part, weights, inputs, tile.row + row);
        }
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
