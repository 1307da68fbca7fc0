//! Packed weights: how matrices stand in memory while the model runs.
//!
//! Sixteen output rows (a group) are interleaved, so that lane `r` of a vector belongs to output row `r` and
//! the sum over the inputs never leaves its lane; eight of them would read the activations twice as often. A row alone,
//! before it is interleaved, is a sequence of [units](Kind::unit_cols): the scale, the minimum, then blocks of
//! quantised elements, in the order in which they are read, since a machine's own prefetching follows ascending
//! addresses only. Elements keep the bits that they have in the file, in [planes].

mod kind;
mod lanes;
mod next;
pub(crate) mod planes;
mod row;
mod super_block;

use std::sync::Arc;

use dflash_tensor::{BackendError, Format, Part, PartShape, Weight};

use crate::CpuBackend;
use crate::disjoint::Disjoint;
use crate::memory::Bytes;

pub(crate) use kind::{BLOCK, Flat, Kind, MAX_CELL, Super};
pub(crate) use next::{Guess, Next, Trail, Walk};

/// Output rows that are interleaved.
pub(crate) const LANES: usize = 16;

/// Matrices that one weight may hold.
pub(crate) const MAX_PARTS: usize = 8;

/// The parts of a packed weight.
pub(crate) struct Packed {
    pub(crate) parts: Vec<PackedPart>,
    pub(crate) next: Next,
}

impl Packed {
    /// What this backend stored in `weight`.
    pub(crate) fn of(weight: &Weight) -> &Arc<Self> {
        weight.store().downcast_ref().expect("a weight packed by this backend")
    }
}

/// One packed matrix.
pub(crate) struct PackedPart {
    pub(crate) kind: Kind,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    /// One per output row, padded to whole groups.
    bias: Option<Vec<f32>>,
    bytes: Bytes,
}

impl PackedPart {
    fn zeroed(backend: &CpuBackend, kind: Kind, rows: usize, cols: usize) -> Self {
        let bytes = backend.memory().zeroed(rows.div_ceil(LANES) * kind.row_bytes(cols) * LANES);
        Self { kind, rows, cols, bias: None, bytes }
    }

    /// Groups of output rows, the last one padded with zeros.
    pub(crate) fn groups(&self) -> usize {
        self.rows.div_ceil(LANES)
    }

    /// Bytes of a group.
    pub(crate) fn group_bytes(&self) -> usize {
        self.kind.row_bytes(self.cols) * LANES
    }

    /// The bytes of group `index`.
    pub(crate) fn group(&self, index: usize) -> &[u8] {
        let bytes = self.group_bytes();
        &self.bytes[index * bytes..][..bytes]
    }

    /// Adds the bias of a group, if there is one.
    pub(crate) fn add_bias(&self, group: usize, products: &mut [f32; LANES]) {
        if let Some(bias) = &self.bias {
            let bias = &bias[group * LANES..][..LANES];
            products.iter_mut().zip(bias).for_each(|(product, bias)| *product += bias);
        }
    }

    /// Bytes that a pass over the first `outputs` outputs reads: those of whole groups.
    pub(crate) fn read_bytes(&self, outputs: usize) -> usize {
        let groups = outputs.div_ceil(LANES);
        let bias = if self.bias.is_some() { groups * LANES * size_of::<f32>() } else { 0 };
        groups * self.group_bytes() + bias
    }

    fn set_bias(&mut self, bias: impl Iterator<Item = f32>) {
        let mut bias: Vec<f32> = bias.collect();
        bias.resize(self.groups() * LANES, 0.0);
        self.bias = Some(bias);
    }
}

/// [`dflash_tensor::Backend::pack`].
pub(crate) fn pack(backend: &CpuBackend, parts: &[Part<'_>]) -> Result<Weight, BackendError> {
    assert!((1..=MAX_PARTS).contains(&parts.len()), "a weight of {} parts", parts.len());
    let cols = parts[0].cols;
    let packed = parts.iter().map(|part| {
        assert_eq!(part.cols, cols, "parts share their input");
        pack_part(backend, part)
    });
    let packed = packed.collect::<Result<Vec<_>, _>>()?;
    let shapes = parts.iter().map(|part| PartShape { rows: part.outputs(), format: part.format });
    Ok(weight(cols, shapes.collect(), packed))
}

fn weight(cols: usize, shapes: Vec<PartShape>, parts: Vec<PackedPart>) -> Weight {
    let bytes = parts.iter().map(|part| part.read_bytes(part.rows)).sum();
    Weight::new(cols, shapes, bytes, Box::new(Arc::new(Packed { parts, next: Next::default() })))
}

fn pack_part(backend: &CpuBackend, part: &Part<'_>) -> Result<PackedPart, BackendError> {
    part.check()?;
    let kind = Kind::of(part.format).ok_or(BackendError::UnsupportedFormat(part.format))?;
    let source = row::Source::of(part)?;
    let order = |row: usize| part.order.map_or(row, |order| order[row] as usize);
    let mut packed = PackedPart::zeroed(backend, kind, part.outputs(), part.cols);
    fill(backend, &mut packed, &|row, unit, bytes| source.read(order(row), unit, bytes));
    if let Some(bias) = part.bias {
        packed.set_bias(bias.iter().copied());
    }
    Ok(packed)
}

/// Fills all rows from `read(row, unit, bytes)`, which writes the units of a row that fill `bytes`; threads
/// take groups.
fn fill(backend: &CpuBackend, part: &mut PackedPart, read: &(dyn Fn(usize, usize, &mut [u8]) + Sync)) {
    let (kind, rows, groups, bytes) = (part.kind, part.rows, part.groups(), part.group_bytes());
    let target = Disjoint::new(&mut part.bytes);
    backend.pool.split(groups, &|_, groups| {
        for group in groups {
            // SAFETY: every group belongs to one thread.
            let group_bytes = unsafe { target.piece(group * bytes..(group + 1) * bytes) };
            let lanes = (rows - group * LANES).min(LANES);
            fill_group(kind, group_bytes, lanes, &|lane, unit, bytes| {
                read(group * LANES + lane, unit, bytes)
            });
        }
    });
}

fn fill_group(kind: Kind, group: &mut [u8], lanes: usize, read: &dyn Fn(usize, usize, &mut [u8])) {
    let mut cell = [0; MAX_CELL];
    let units = kind.cell_units();
    for (index, target) in group.chunks_mut(units * kind.unit_bytes() * LANES).enumerate() {
        let cell = &mut cell[..target.len() / LANES];
        for lane in 0..lanes {
            read(lane, index * units, cell);
            lanes::scatter(kind, target, lane, cell);
        }
    }
}

/// [`dflash_tensor::Backend::gather`].
pub(crate) fn gather(backend: &CpuBackend, source: &Weight, ids: &[u32]) -> Weight {
    let [part] = &Packed::of(source).parts[..] else { panic!("rows are gathered from one part") };
    assert!(ids.iter().all(|&id| (id as usize) < part.rows), "an id beyond {} rows", part.rows);
    let mut packed = PackedPart::zeroed(backend, part.kind, ids.len(), part.cols);
    fill(backend, &mut packed, &|row, unit, bytes| part.read(ids[row] as usize, unit, bytes));
    if let Some(bias) = &part.bias {
        packed.set_bias(ids.iter().map(|&id| bias[id as usize]));
    }
    let format: Format = source.parts()[0].format;
    weight(part.cols, vec![PartShape { rows: ids.len(), format }], vec![packed])
}

impl PackedPart {
    /// As many units of row `row` as fill `bytes` (one, unless elements are floats) from `unit` on, as they
    /// were before interleaving.
    pub(crate) fn read(&self, row: usize, unit: usize, bytes: &mut [u8]) {
        let first = unit * self.kind.unit_bytes() * LANES;
        let source = &self.group(row / LANES)[first..][..bytes.len() * LANES];
        lanes::collect(self.kind, source, row % LANES, bytes);
    }
}
