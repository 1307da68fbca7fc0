use dflash_tensor::Tensor;

use crate::{CpuBackend, host, rows};

/// [`dflash_tensor::Backend::rms_norm`].
pub(crate) fn rms_norm(backend: &CpuBackend, x: &Tensor, weight: &Tensor, eps: f32, out: &mut Tensor) {
    let width = weight.cols();
    assert_eq!(x.cols(), out.cols(), "columns of input and output");
    assert!(x.cols().is_multiple_of(width), "a gain of {width} for rows of {}", x.cols());
    out.set_rows(x.rows());
    let norm = (host::rows(weight), eps);
    let pieces = host::rows(x).chunks_exact(width).zip(host::rows_mut(out).chunks_exact_mut(width));
    pieces.for_each(|(x, out)| rows::rms_norm(backend.isa, x, norm, out));
}
