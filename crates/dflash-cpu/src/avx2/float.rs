use std::arch::x86_64::*;

use super::scale::Widen;
use crate::inputs::Inputs;
use crate::pack::LANES;
use crate::tile::{Products, Tile};

/// A group of float weights against `R` input rows: inputs in order, a lane per output row.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn multiply<W: Widen, const R: usize>(
    weights: &[u8],
    inputs: &Inputs<'_>,
    tile: &Tile,
    out: &mut Products,
) {
    let cols = inputs.cols;
    let (weights, x) =
        (&weights[..cols * LANES * W::BYTES], &inputs.values[tile.rows.start * cols..][..R * cols]);
    let mut sums = [[_mm256_setzero_ps(); 2]; R];
    for k in 0..cols {
        if tile.fetch_next && k % (4 / W::BYTES) == 0 {
            super::fetch(weights.as_ptr().wrapping_add(k * LANES * W::BYTES), weights.len(), 64);
        }
        // SAFETY: input `k` of the group lies in `weights`, and the features are enabled here.
        let [low, high] = unsafe { super::scale::pair::<W>(weights.as_ptr().add(k * LANES * W::BYTES)) };
        for (r, sums) in sums.iter_mut().enumerate() {
            // SAFETY: `r < R` and `k < cols`, and `x` has `R * cols` elements.
            let x = _mm256_set1_ps(unsafe { *x.get_unchecked(r * cols + k) });
            sums[0] = _mm256_fmadd_ps(low, x, sums[0]);
            sums[1] = _mm256_fmadd_ps(high, x, sums[1]);
        }
    }
    super::store(&sums, out);
}
