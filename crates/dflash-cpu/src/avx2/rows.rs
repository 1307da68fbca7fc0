//! [`crate::rows`], compiled with AVX2 and FMA.

use crate::rows::{Norm, Prepared, normalize, prepare_row};

pub(crate) fn prepare(x: &[f32], norm: Option<Norm<'_>>, out: Prepared<'_>) {
    // SAFETY: a backend with these kernels exists only where the features do.
    unsafe { prepare_features(x, norm, out) }
}

#[target_feature(enable = "avx2,fma")]
fn prepare_features(x: &[f32], norm: Option<Norm<'_>>, out: Prepared<'_>) {
    prepare_row(x, norm, out);
}

pub(crate) fn rms_norm(x: &[f32], norm: Norm<'_>, out: &mut [f32]) {
    // SAFETY: a backend with these kernels exists only where the features do.
    unsafe { rms_norm_features(x, norm, out) }
}

#[target_feature(enable = "avx2,fma")]
fn rms_norm_features(x: &[f32], norm: Norm<'_>, out: &mut [f32]) {
    normalize(x, norm, out);
}
