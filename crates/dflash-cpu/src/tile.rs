//! The unit of work of a product: one group of output rows against some input rows.

use std::ops::Range;

use crate::Isa;
use crate::inputs::Inputs;
use crate::pack::{LANES, PackedPart};

/// Input rows of the largest tile. It changes speed, never bits.
pub(crate) const MAX_ROWS: usize = 4;

/// Products of a group, row after row.
pub(crate) type Products = [[f32; LANES]; MAX_ROWS];

/// Room for the products of a tile.
pub(crate) const NO_PRODUCTS: Products = [[0.0; LANES]; MAX_ROWS];

/// Multiplies a group with some rows, at most [`MAX_ROWS`]. Every product has one order of summation, which
/// depends on the part alone.
pub(crate) fn multiply(
    isa: Isa,
    part: &PackedPart,
    group: usize,
    inputs: &Inputs<'_>,
    rows: Range<usize>,
    out: &mut Products,
) {
    match isa {
        Isa::Scalar => crate::scalar::multiply(part, group, inputs, rows, out),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => crate::avx2::multiply(part, group, inputs, rows, out),
        #[cfg(not(target_arch = "x86_64"))]
        Isa::Avx2 => unreachable!("not on this machine"),
    }
    for products in out {
        part.add_bias(group, products);
    }
}
