use dflash_tensor::{AffineScale, Tensor, Weight};
use half::{bf16, f16};

use crate::pack::{Kind, MAX_CELL, Packed, PackedPart};
use crate::{CpuBackend, host};

/// [`dflash_tensor::Backend::embed`].
pub(crate) fn embed(_backend: &CpuBackend, table: &Weight, ids: &[u32], scale: f32, out: &mut Tensor) {
    let [part] = &Packed::of(table).parts[..] else { panic!("a table of embeddings is one part") };
    assert_eq!(out.cols(), part.cols, "columns of output and table");
    out.set_rows(ids.len());
    for (&id, out) in ids.iter().zip(host::rows_mut(out).chunks_exact_mut(part.cols)) {
        assert!((id as usize) < part.rows, "id {id} of {} rows", part.rows);
        read_row(part, id as usize, out);
        out.iter_mut().for_each(|value| *value *= scale);
    }
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
    let (scales, elements) = unit.split_at(kind.head_bytes());
    let scale = number(kind.scale(), scales);
    let min = kind.has_min().then(|| number(kind.scale(), &scales[kind.scale_bytes()..]));
    for (k, out) in out.iter_mut().enumerate() {
        let product = scale * (element(kind, elements, k) + kind.zero()) as f32;
        *out = min.map_or(product, |min| product + min);
    }
}

fn element(kind: Kind, elements: &[u8], k: usize) -> i32 {
    if !kind.is_nibble() {
        return i32::from(elements[k] as i8);
    }
    let byte = elements[k / 32 * 16 + k % 16];
    i32::from(if k % 32 < 16 { byte & 15 } else { byte >> 4 })
}

fn number(scale: AffineScale, bytes: &[u8]) -> f32 {
    match scale {
        AffineScale::F16 => f16::from_le_bytes([bytes[0], bytes[1]]).to_f32(),
        AffineScale::Bf16 => bf16::from_le_bytes([bytes[0], bytes[1]]).to_f32(),
        AffineScale::F32 => f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
    }
}
