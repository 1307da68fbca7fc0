use std::arch::x86_64::*;

use super::scale::Widen;
use crate::inputs::Inputs;
use crate::pack::LANES;
use crate::tile::Products;

/// `G` groups of float weights against `R` input rows: inputs in order, a lane per output row.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn multiply<W: Widen, const R: usize, const G: usize>(
    weights: &[u8],
    inputs: &Inputs<'_>,
    row: usize,
    out: &mut Products,
) {
    let cols = inputs.cols;
    let group = cols * LANES * W::BYTES;
    let (weights, x) = (&weights[..G * group], &inputs.values[row * cols..][..R * cols]);
    let mut sums = [[_mm256_setzero_ps(); R]; G];
    for k in 0..cols {
        let at = |g: usize| weights.as_ptr().wrapping_add(g * group + k * LANES * W::BYTES);
        // SAFETY: input `k` of group `g` lies in `weights`, and the features are enabled here.
        let wide: [__m256; G] = std::array::from_fn(|g| unsafe { W::widen(at(g)) });
        for r in 0..R {
            // SAFETY: `r < R` and `k < cols`, and `x` has `R * cols` elements.
            let x = _mm256_set1_ps(unsafe { *x.get_unchecked(r * cols + k) });
            for g in 0..G {
                sums[g][r] = _mm256_fmadd_ps(wide[g], x, sums[g][r]);
            }
        }
    }
    super::store(&sums, out);
}
