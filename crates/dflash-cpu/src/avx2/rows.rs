//! [`crate::rows`], compiled with AVX2 and FMA.

use crate::quantize::QuantBlock;
use crate::rows::{Norm, normalize, prepare_row};

pub(crate) fn prepare(x: &[f32], norm: Option<Norm<'_>>, values: &mut [f32], blocks: &mut [QuantBlock]) {
    // SAFETY: a backend with these kernels exists only where the features do.
    unsafe { prepare_features(x, norm, values, blocks) }
}

#[target_feature(enable = "avx2,fma")]
fn prepare_features(x: &[f32], norm: Option<Norm<'_>>, values: &mut [f32], blocks: &mut [QuantBlock]) {
    prepare_row(x, norm, values, blocks);
}

pub(crate) fn rms_norm(x: &[f32], norm: Norm<'_>, out: &mut [f32]) {
    // SAFETY: a backend with these kernels exists only where the features do.
    unsafe { rms_norm_features(x, norm, out) }
}

#[target_feature(enable = "avx2,fma")]
fn rms_norm_features(x: &[f32], norm: Norm<'_>, out: &mut [f32]) {
    normalize(x, norm, out);
}
