use candle_core::{CpuStorage, CustomOp2, D, Layout, Result, Shape, Tensor};
use rayon::prelude::*;

use super::sums::dot;
use super::{floats, values};

/// Rows that a gain's gradient is summed over before the sums are added: fixed, so that results do not depend on the
/// number of threads.
const ROWS: usize = 32;

/// `x / sqrt(mean(x^2) + eps) * gain` for every row of `x`, `[rows, cols]`.
pub fn rms_norm(x: &Tensor, gain: &Tensor, eps: f32) -> Result<Tensor> {
    if x.device().is_cpu() {
        return x.apply_op2(gain, RmsNorm { eps });
    }
    composed(x, gain, eps)
}

/// The same of the framework's operations, for any number of dimensions.
pub(super) fn composed(x: &Tensor, gain: &Tensor, eps: f32) -> Result<Tensor> {
    let length = (x.sqr()?.mean_keepdim(D::Minus1)? + f64::from(eps))?.sqrt()?;
    x.broadcast_div(&length)?.broadcast_mul(gain)
}

struct RmsNorm {
    eps: f32,
}

impl CustomOp2 for RmsNorm {
    fn name(&self) -> &'static str {
        "rms-norm"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        gain: &CpuStorage,
        gain_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (x, gain) = (floats(x, x_layout)?, floats(gain, gain_layout)?);
        let mut out = vec![0.0; x.len()];
        out.par_chunks_mut(gain.len()).zip(x.par_chunks(gain.len())).with_min_len(ROWS).for_each(
            |(out, x)| {
                let factor = factor(x, self.eps);
                out.iter_mut().zip(x).zip(gain).for_each(|((out, x), gain)| *out = x * factor * gain);
            },
        );
        Ok((CpuStorage::F32(out), x_layout.shape().clone()))
    }

    fn bwd(
        &self,
        x: &Tensor,
        gain: &Tensor,
        _: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let grad = grad.contiguous()?;
        let (xs, gains, grads) = (values(x)?, values(gain)?, values(&grad)?);
        let cols = gains.len();
        let mut x_grad = vec![0.0; xs.len()];
        let parts: Vec<Vec<f32>> = x_grad
            .par_chunks_mut(ROWS * cols)
            .zip(xs.par_chunks(ROWS * cols))
            .zip(grads.par_chunks(ROWS * cols))
            .map(|((x_grad, x), grad)| {
                let mut gain_grad = vec![0.0; cols];
                let rows =
                    x_grad.chunks_exact_mut(cols).zip(x.chunks_exact(cols)).zip(grad.chunks_exact(cols));
                rows.for_each(|((x_grad, x), grad)| {
                    x_grad.copy_from_slice(grad);
                    norm_backward(x, &gains, self.eps, x_grad, &mut gain_grad);
                });
                gain_grad
            })
            .collect();
        let x_grad = Tensor::from_vec(x_grad, x.shape(), x.device())?;
        let gain_grad = Tensor::from_vec(add_up(parts, cols), gain.shape(), gain.device())?;
        Ok((Some(x_grad), Some(gain_grad)))
    }
}

/// `1 / sqrt(mean(x^2) + eps)`.
pub(super) fn factor(x: &[f32], eps: f32) -> f32 {
    1.0 / (dot(x, x) / x.len() as f32 + eps).sqrt()
}

/// Makes of the gradient of a normalised row that of the row, and adds to the gain's.
pub(super) fn norm_backward(x: &[f32], gain: &[f32], eps: f32, grad: &mut [f32], gain_grad: &mut [f32]) {
    let factor = factor(x, eps);
    for (((gain_grad, grad), x), gain) in gain_grad.iter_mut().zip(grad.iter_mut()).zip(x).zip(gain) {
        *gain_grad += *grad * x * factor;
        *grad *= gain;
    }
    let along = dot(grad, x) * factor * factor / x.len() as f32;
    grad.iter_mut().zip(x).for_each(|(grad, x)| *grad = factor * (*grad - x * along));
}

/// Adds gradients, part after part.
pub(super) fn add_up(parts: Vec<Vec<f32>>, cols: usize) -> Vec<f32> {
    let add = |mut sum: Vec<f32>, part: Vec<f32>| {
        sum.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
        sum
    };
    parts.into_iter().fold(vec![0.0; cols], add)
}

#[cfg(test)]
mod tests {
    use super::super::check::{assert_same, random};
    use super::*;

    #[test]
    fn fused_is_composed() -> Result<()> {
        let (x, gain) = (random(&[70, 19], 1)?, random(&[19], 2)?);
        assert_same(
            &[&x, &gain],
            |args| rms_norm(&args[0], &args[1], 1e-5),
            |args| composed(&args[0], &args[1], 1e-5),
        )
    }
}
