use dflash_tensor::{AffineScale, Tensor, Weight};
use half::{bf16, f16};

use crate::pack::planes::{self, QUADS};
use crate::pack::{BLOCK, Kind, MAX_CELL, Packed, PackedPart};
use crate::{CpuBackend, host};

/// [`dflash_tensor::Backend::embed`].
pub(crate) fn embed(_backend: &CpuBackend, table: &Weight, ids: &[u32], scale: f32, out: &mut Tensor) {
    let parts = &Packed::of(table).parts;
    assert_eq!(out.cols(), table.cols(), "columns of output and table");
    out.set_rows(ids.len());
    for (&id, out) in ids.iter().zip(host::rows_mut(out).chunks_exact_mut(table.cols())) {
        let Some((part, row)) = place(parts, id as usize) else {
            panic!("id {id} of {} rows", table.rows());
        };
        read_row(part, row, out);
        out.iter_mut().for_each(|value| *value *= scale);
    }
}

/// The part that holds a row of them all, and which of its rows that is.
fn place(parts: &[PackedPart], mut row: usize) -> Option<(&PackedPart, usize)> {
    for part in parts {
        if row < part.rows {
            return Some((part, row));
        }
        row -= part.rows;
    }
    None
}

/// Row `row` as numbers: `scale * q + min`, rounded after the product and after the sum.
fn read_row(part: &PackedPart, row: usize, out: &mut [f32]) {
    let (kind, units) = (part.kind, part.kind.cell_units());
    let mut cell = [0; MAX_CELL];
    for (index, out) in out.chunks_mut(units * kind.unit_cols()).enumerate() {
        let cell = &mut cell[..kind.row_bytes(out.len())];
        part.read(row, index * units, cell);
        read_cell(kind, cell, out);
    }
}

fn read_cell(kind: Kind, cell: &[u8], out: &mut [f32]) {
    match kind {
        Kind::F32 => out.iter_mut().zip(cell.as_chunks().0).for_each(|(v, b)| *v = f32::from_le_bytes(*b)),
        Kind::F16 => {
            out.iter_mut().zip(cell.as_chunks().0).for_each(|(v, b)| *v = f16::from_le_bytes(*b).to_f32())
        }
        Kind::Bf16 => {
            out.iter_mut().zip(cell.as_chunks().0).for_each(|(v, b)| *v = bf16::from_le_bytes(*b).to_f32());
        }
        _ => read_unit(kind, cell, out),
    }
}

fn read_unit(kind: Kind, unit: &[u8], out: &mut [f32]) {
    let (head, blocks) = unit.split_at(kind.head_bytes());
    let scale = number(kind.scale(), head);
    let min = kind.has_min().then(|| number(kind.scale(), &head[kind.scale_bytes()..]));
    for (block, out) in blocks.chunks_exact(kind.block_bytes()).zip(out.chunks_exact_mut(BLOCK)) {
        let (factors, elements) = block.split_at(kind.block_head_bytes());
        let (scales, mins) = match kind {
            Kind::Super(kind) => {
                let (scales, mins) = kind.factors([factors[0], factors[1]]);
                (scales.map(|s| scale * s as f32), min.map(|min| mins.map(|n| -min * n as f32)))
            }
            _ => ([scale; 2], min.map(|min| [min; 2])),
        };
        for (k, (out, element)) in out.iter_mut().zip(self::elements(kind, elements)).enumerate() {
            let product = scales[k / 16] * element as f32;
            *out = mins.map_or(product, |mins| product + mins[k / 16]);
        }
    }
}

/// The elements of a block, with the zero.
fn elements(kind: Kind, block: &[u8]) -> impl Iterator<Item = i32> {
    let (bits, words) = (kind.bits(), block.as_chunks().0);
    let quad = move |quad| planes::quad(bits, quad, |word| u32::from_le_bytes(words[word])).to_le_bytes();
    let integer = move |byte: u8| if bits == 8 { i32::from(byte.cast_signed()) } else { i32::from(byte) };
    (0..QUADS).flat_map(quad).map(move |byte| integer(byte) + kind.zero())
}

fn number(scale: AffineScale, bytes: &[u8]) -> f32 {
    match scale {
        AffineScale::F16 => f16::from_le_bytes([bytes[0], bytes[1]]).to_f32(),
        AffineScale::Bf16 => bf16::from_le_bytes([bytes[0], bytes[1]]).to_f32(),
        AffineScale::F32 => f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
    }
}
