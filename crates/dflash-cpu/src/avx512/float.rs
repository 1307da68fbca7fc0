use std::arch::x86_64::*;

use super::scale::Widen16;
use crate::avx2::fetch;
use crate::inputs::Inputs;
use crate::pack::LANES;
use crate::tile::{Products, Tile};

/// A group of float weights against `R` input rows: inputs in order, a lane per output row.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw")]
pub(super) fn multiply<W: Widen16, const R: usize>(
    weights: &[u8],
    inputs: &Inputs<'_>,
    tile: &Tile,
    out: &mut Products,
) {
    let (cols, step) = (inputs.cols, LANES * W::BYTES);
    let weights = &weights[..cols * step];
    let x = &inputs.values[tile.rows.start * cols..][..R * cols];
    let rows: [*const f32; R] = std::array::from_fn(|r| x[r * cols..].as_ptr());
    let mut sums = [_mm512_setzero_ps(); R];
    for k in 0..cols {
        let position = weights.as_ptr().wrapping_add(k * step);
        if tile.fetch_next && k % (4 / W::BYTES) == 0 {
            fetch(position, weights.len(), 64);
        }
        // SAFETY: input `k` of the group lies in `weights`, and the features are enabled here.
        let column = unsafe { W::widen16(position) };
        for r in 0..R {
            // SAFETY: a row has `cols` elements.
            let x = _mm512_set1_ps(unsafe { *rows[r].add(k) });
            sums[r] = _mm512_fmadd_ps(column, x, sums[r]);
        }
    }
    for (out, sum) in out.iter_mut().zip(sums) {
        // SAFETY: an element of `out` is sixteen floats.
        unsafe { _mm512_storeu_ps(out.as_mut_ptr(), sum) };
    }
}
