//! The unit of work of a product: one group of output rows against some input rows.

use std::ops::Range;

use crate::Isa;
use crate::inputs::Inputs;
use crate::pack::{LANES, PackedPart};
use crate::pool::share;

/// Input rows of the largest tile. It changes speed, never bits.
pub(crate) const MAX_ROWS: usize = 8;

/// Input rows of the largest tile where registers are few.
const FEW_ROWS: usize = 4;

/// Products of a group, row after row.
pub(crate) type Products = [[f32; LANES]; MAX_ROWS];

/// Room for the products of a tile.
pub(crate) const NO_PRODUCTS: Products = [[0.0; LANES]; MAX_ROWS];

/// Some input rows, at most [`MAX_ROWS`], against one group.
#[derive(Clone)]
pub(crate) struct Tile {
    pub(crate) group: usize,
    pub(crate) rows: Range<usize>,
    /// Whether the next group is fetched on the way. A group that is read once streams by itself. Where
    /// several tiles read it, or many inputs come between, the machine's own prefetching loses the thread.
    pub(crate) fetch_next: bool,
}

/// Bytes of quantised input rows between two reads of a group that leave the machine's prefetching alone.
const QUIET: usize = 8 << 10;

/// The tiles of `rows` against group `group`: as few as registers allow, of equal height to within one. AVX-512 has
/// registers for twice the rows.
pub(crate) fn tiles(
    isa: Isa,
    part: &PackedPart,
    group: usize,
    inputs: &Inputs<'_>,
    rows: Range<usize>,
) -> impl Iterator<Item = Tile> + use<> {
    let loud = if part.kind.is_quantized() { QUIET / inputs.row_bytes() } else { 1 };
    let tiles = rows.len().div_ceil(if isa == Isa::Avx512 { MAX_ROWS } else { FEW_ROWS });
    (0..tiles).map(move |index| {
        let own = share(rows.len(), index, tiles);
        let fetch_next = index + 1 == tiles && (tiles > 1 || own.len() > loud);
        Tile { group, rows: rows.start + own.start..rows.start + own.end, fetch_next }
    })
}

/// Multiplies a tile. Every product has one order of summation, which depends on the part alone.
pub(crate) fn multiply(isa: Isa, part: &PackedPart, inputs: &Inputs<'_>, tile: &Tile, out: &mut Products) {
    match isa {
        Isa::Scalar => crate::scalar::multiply(part, inputs, tile, out),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => crate::avx2::multiply(part, inputs, tile, out),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => crate::avx512::multiply(part, inputs, tile, out),
        #[cfg(not(target_arch = "x86_64"))]
        Isa::Avx2 | Isa::Avx512 => unreachable!("not on this machine"),
    }
    for products in &mut out[..tile.rows.len()] {
        part.add_bias(tile.group, products);
    }
}
