use std::ops::Range;

use dflash_tensor::{DeltaGeometry, RecurrentGeometry};

use super::kernel::WIDTH;

/// Where the parts of a layer's state and of its tape stand.
///
/// A state is cut into tiles of [`WIDTH`] columns of one value head, `[value_heads][tiles][key_dim]`, and the
/// columns beyond `value_dim` hold nothing. A row of the tape is `[raw row | k | g | delta]`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) geometry: RecurrentGeometry,
}

impl Layout {
    /// Columns of a row before the convolution.
    pub(crate) fn channels(&self) -> usize {
        self.geometry.conv.channels
    }

    /// Elements of the conv tail.
    pub(crate) fn tail(&self) -> usize {
        (self.geometry.conv.kernel - 1) * self.channels()
    }

    /// Rows of tiles of all heads together.
    pub(crate) fn state(&self) -> usize {
        self.geometry.delta.map_or(0, |delta| delta.value_heads * tiles(&delta) * delta.key_dim)
    }

    /// Parts of a row of the tape: raw row, keys, decays, deltas.
    pub(crate) fn tape(&self) -> [usize; 4] {
        let [k, g, delta] = self.geometry.delta.map_or([0; 3], |delta| {
            let keys = delta.key_heads * delta.key_dim;
            [keys, delta.value_heads, delta.value_heads * delta.value_dim]
        });
        [self.channels(), k, g, delta]
    }
}

/// Tiles of a value head.
pub(crate) fn tiles(geometry: &DeltaGeometry) -> usize {
    geometry.value_dim.div_ceil(WIDTH)
}

/// Rows of a tile of a state.
pub(crate) fn tile_rows(geometry: &DeltaGeometry, head: usize, tile: usize) -> Range<usize> {
    let first = (head * tiles(geometry) + tile) * geometry.key_dim;
    first..first + geometry.key_dim
}

/// Columns of a tile in a row `[value_heads * value_dim]`.
pub(crate) fn tile_columns(geometry: &DeltaGeometry, head: usize, tile: usize) -> Range<usize> {
    let width = (geometry.value_dim - tile * WIDTH).min(WIDTH);
    let first = head * geometry.value_dim + tile * WIDTH;
    first..first + width
}

/// The columns of a tile, filled up with zeros.
pub(crate) fn lanes(values: &[f32]) -> [f32; WIDTH] {
    let mut lanes = [0.0; WIDTH];
    lanes[..values.len()].copy_from_slice(values);
    lanes
}
