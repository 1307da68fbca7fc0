//! The unit of work of a product: one group of output rows against some input rows.

use std::ops::Range;

use crate::Isa;
use crate::inputs::Inputs;
use crate::pack::{LANES, PackedPart};
use crate::pool::steps;

/// Input rows of the largest tile. It changes speed, never bits.
pub(crate) const MAX_ROWS: usize = 4;

/// Products of a group, row after row.
pub(crate) type Products = [[f32; LANES]; MAX_ROWS];

/// Room for the products of a tile.
pub(crate) const NO_PRODUCTS: Products = [[0.0; LANES]; MAX_ROWS];

/// Some input rows, at most [`MAX_ROWS`], against one group.
#[derive(Clone)]
pub(crate) struct Tile {
    pub(crate) group: usize,
    pub(crate) rows: Range<usize>,
    /// Whether the next group is fetched on the way. A group that is read once streams by itself; where
    /// several tiles read it, the machine's own prefetching has lost the thread when the next one begins.
    pub(crate) fetch_next: bool,
}

/// The tiles of `rows` against group `group`.
pub(crate) fn tiles(group: usize, rows: Range<usize>) -> impl Iterator<Item = Tile> {
    let (first, end) = (rows.start, rows.end);
    steps(rows, MAX_ROWS).map(move |rows| {
        let fetch_next = rows.end == end && rows.start > first;
        Tile { group, rows, fetch_next }
    })
}

/// Multiplies a tile. Every product has one order of summation, which depends on the part alone.
pub(crate) fn multiply(isa: Isa, part: &PackedPart, inputs: &Inputs<'_>, tile: &Tile, out: &mut Products) {
    match isa {
        Isa::Scalar => crate::scalar::multiply(part, inputs, tile, out),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => crate::avx2::multiply(part, inputs, tile, out),
        #[cfg(not(target_arch = "x86_64"))]
        Isa::Avx2 => unreachable!("not on this machine"),
    }
    for products in out {
        part.add_bias(tile.group, products);
    }
}
