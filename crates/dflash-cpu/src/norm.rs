use dflash_tensor::Tensor;

use crate::{CpuBackend, host, rows};

/// [`dflash_tensor::Backend::rms_norm`].
pub(crate) fn rms_norm(backend: &CpuBackend, x: &Tensor, weight: &Tensor, eps: f32, out: &mut Tensor) {
    assert_eq!((x.cols(), x.cols()), (out.cols(), weight.cols()), "columns of input, output and gain");
    out.set_rows(x.rows());
    let norm = (host::rows(weight), eps);
    let rows = host::rows(x).chunks_exact(x.cols()).zip(host::rows_mut(out).chunks_exact_mut(x.cols()));
    rows.for_each(|(x, out)| rows::rms_norm(backend.isa, x, norm, out));
}
