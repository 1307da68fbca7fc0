//! The unit of work of a product: some groups of output rows against some input rows.

use std::ops::Range;

use crate::Isa;
use crate::inputs::Inputs;
use crate::pack::{Kind, LANES, PackedPart};

/// Input rows of the largest tile.
pub(crate) const MAX_ROWS: usize = 4;

/// Groups of the largest tile.
pub(crate) const MAX_GROUPS: usize = 4;

/// Products of a tile: element `group * rows + row`.
pub(crate) type Products = [[f32; LANES]; MAX_ROWS * MAX_GROUPS];

/// Room for the products of a tile.
pub(crate) const NO_PRODUCTS: Products = [[0.0; LANES]; MAX_ROWS * MAX_GROUPS];

/// Which groups and rows.
#[derive(Clone, Copy)]
pub(crate) struct Tile {
    pub(crate) group: usize,
    pub(crate) groups: usize,
    pub(crate) row: usize,
    pub(crate) rows: usize,
}

impl Tile {
    /// Some groups and rows.
    pub(crate) fn new(groups: &Range<usize>, rows: &Range<usize>) -> Self {
        Self { group: groups.start, groups: groups.len(), row: rows.start, rows: rows.len() }
    }

    /// The products of the tile with their `(row, group)`.
    pub(crate) fn products(
        self,
        products: &mut Products,
    ) -> impl Iterator<Item = (usize, usize, &mut [f32; LANES])> {
        let groups = products.chunks_exact_mut(self.rows).take(self.groups).enumerate();
        groups.flat_map(move |(group, products)| {
            let rows = products.iter_mut().enumerate();
            rows.map(move |(row, products)| (self.row + row, self.group + group, products))
        })
    }
}

/// Groups that go well together with `rows` input rows; the choice changes speed, never bits.
pub(crate) fn groups(kind: Kind, rows: usize) -> usize {
    match (kind.is_quantized(), rows) {
        (true, _) => 2,
        (false, 1) => 4,
        (false, _) => 2,
    }
}

/// Multiplies a tile. Every product has one order of summation, which depends on the part alone.
pub(crate) fn multiply(isa: Isa, part: &PackedPart, inputs: &Inputs<'_>, tile: Tile, out: &mut Products) {
    match isa {
        Isa::Scalar => crate::scalar::multiply(part, inputs, tile, out),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => crate::avx2::multiply(part, inputs, tile, out),
        #[cfg(not(target_arch = "x86_64"))]
        Isa::Avx2 => unreachable!("not on this machine"),
    }
}
