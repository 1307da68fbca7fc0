use std::sync::Arc;

use candle_core::{CpuStorage, CustomOp2, Device, Layout, Result, Shape, Tensor};
use rayon::prelude::*;

use super::rms_norm::{add_up, composed as norm, factor, norm_backward};
use super::{floats, values};

/// Rows that a gain's gradient is summed over before the sums are added.
const ROWS: usize = 32;

/// Cosines and sines of the rotary embedding, `[positions, head_dim / 2]`.
#[derive(Debug)]
pub struct Rotation {
    cos: Tensor,
    sin: Tensor,
    head_dim: usize,
}

impl Rotation {
    /// For positions below `positions`: pair `i` of a head turns by `theta^(-2 i / head_dim)` a position.
    pub fn new(positions: usize, head_dim: usize, theta: f64, device: &Device) -> Result<Self> {
        let half = head_dim / 2;
        let angle = |place: usize| {
            (place / half) as f64 * theta.powf(-((2 * (place % half)) as f64) / head_dim as f64)
        };
        let table = |of: fn(f64) -> f64| {
            let values: Vec<f32> = (0..positions * half).map(|place| of(angle(place)) as f32).collect();
            Tensor::from_vec(values, (positions, half), device)
        };
        Ok(Self { cos: table(f64::cos)?, sin: table(f64::sin)?, head_dim })
    }
}

/// Queries or keys of rows at `positions`: the first `heads` heads of each row of `x`, `[rows, columns]`, are
/// normalised with `gain`, `[head_dim]`, and rotated; further columns stay as they are.
pub fn rotate(
    x: &Tensor,
    gain: &Tensor,
    heads: usize,
    eps: f32,
    rotation: &Arc<Rotation>,
    positions: &Arc<Vec<u32>>,
) -> Result<Tensor> {
    let op = Rotate { heads, eps, rotation: Arc::clone(rotation), positions: Arc::clone(positions) };
    if x.device().is_cpu() { x.apply_op2(gain, op) } else { op.composed(x, gain) }
}

struct Rotate {
    heads: usize,
    eps: f32,
    rotation: Arc<Rotation>,
    positions: Arc<Vec<u32>>,
}

impl Rotate {
    fn composed(&self, x: &Tensor, gain: &Tensor) -> Result<Tensor> {
        let (rows, cols) = x.dims2()?;
        let dim = self.rotation.head_dim;
        let turned = self.heads * dim;
        let at = Tensor::new(self.positions.as_slice(), x.device())?;
        let turns = |table: &Tensor| table.index_select(&at, 0)?.unsqueeze(1);
        let (cos, sin) = (turns(&self.rotation.cos)?, turns(&self.rotation.sin)?);
        let heads = x.narrow(1, 0, turned)?.reshape((rows, self.heads, dim))?;
        let heads = norm(&heads, gain, self.eps)?;
        let (a, b) = (heads.narrow(2, 0, dim / 2)?, heads.narrow(2, dim / 2, dim / 2)?);
        let left = (a.broadcast_mul(&cos)? - b.broadcast_mul(&sin)?)?;
        let right = (b.broadcast_mul(&cos)? + a.broadcast_mul(&sin)?)?;
        let heads = Tensor::cat(&[left, right], 2)?.reshape((rows, turned))?;
        if turned == cols {
            return Ok(heads);
        }
        Tensor::cat(&[heads, x.narrow(1, turned, cols - turned)?], 1)
    }

    /// Of row `row`.
    fn turns<'a>(&self, cos: &'a [f32], sin: &'a [f32], row: usize) -> (&'a [f32], &'a [f32]) {
        let half = self.rotation.head_dim / 2;
        let start = self.positions[row] as usize * half;
        (&cos[start..start + half], &sin[start..start + half])
    }
}

/// Turns every pair of a head; the other way round with `-sin`.
fn turn(head: &mut [f32], cos: &[f32], sin: &[f32], sign: f32) {
    let (a, b) = head.split_at_mut(cos.len());
    for ((a, b), (cos, sin)) in a.iter_mut().zip(b).zip(cos.iter().zip(sin)) {
        let sin = sign * sin;
        (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
    }
}

impl CustomOp2 for Rotate {
    fn name(&self) -> &'static str {
        "rotate"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        layout: &Layout,
        gain: &CpuStorage,
        gain_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (_, cols) = layout.shape().dims2()?;
        let (x, gain) = (floats(x, layout)?, floats(gain, gain_layout)?);
        let (cos, sin) = (values(&self.rotation.cos)?, values(&self.rotation.sin)?);
        let mut out = x.to_vec();
        out.par_chunks_mut(cols).with_min_len(ROWS).enumerate().for_each(|(row, out)| {
            let (cos, sin) = self.turns(&cos, &sin, row);
            for head in out.chunks_exact_mut(gain.len()).take(self.heads) {
                let factor = factor(head, self.eps);
                head.iter_mut().zip(gain).for_each(|(value, gain)| *value *= factor * gain);
                turn(head, cos, sin, 1.0);
            }
        });
        Ok((CpuStorage::F32(out), layout.shape().clone()))
    }

    fn bwd(
        &self,
        x: &Tensor,
        gain: &Tensor,
        _: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let (cols, dim) = (x.dim(1)?, self.rotation.head_dim);
        let grad = grad.contiguous()?;
        let (xs, gains) = (values(x)?, values(gain)?);
        let (cos, sin) = (values(&self.rotation.cos)?, values(&self.rotation.sin)?);
        let mut x_grad = values(&grad)?.to_vec();
        let parts: Vec<Vec<f32>> = x_grad
            .par_chunks_mut(ROWS * cols)
            .zip(xs.par_chunks(ROWS * cols))
            .enumerate()
            .map(|(part, (x_grad, x))| {
                let mut gain_grad = vec![0.0; dim];
                let rows = x_grad.chunks_exact_mut(cols).zip(x.chunks_exact(cols)).enumerate();
                for (row, (x_grad, x)) in rows {
                    let (cos, sin) = self.turns(&cos, &sin, part * ROWS + row);
                    let heads = x_grad.chunks_exact_mut(dim).zip(x.chunks_exact(dim)).take(self.heads);
                    for (grad, x) in heads {
                        turn(grad, cos, sin, -1.0);
                        norm_backward(x, &gains, self.eps, grad, &mut gain_grad);
                    }
                }
                gain_grad
            })
            .collect();
        let x_grad = Tensor::from_vec(x_grad, x.shape(), x.device())?;
        let gain_grad = Tensor::from_vec(add_up(parts, dim), gain.shape(), gain.device())?;
        Ok((Some(x_grad), Some(gain_grad)))
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Var;

    use super::super::check::{assert_same, random};
    use super::*;

    #[test]
    fn fused_is_composed() -> Result<()> {
        let (x, gain) = (random(&[40, 26], 1)?, random(&[6], 2)?);
        let rotation = Arc::new(Rotation::new(50, 6, 1e4, &Device::Cpu)?);
        let positions = Arc::new((0..40).map(|row| row * 7 % 50).collect::<Vec<u32>>());
        let fused = |args: &[Var]| rotate(&args[0], &args[1], 3, 1e-5, &rotation, &positions);
        let op = Rotate {
            heads: 3,
            eps: 1e-5,
            rotation: Arc::clone(&rotation),
            positions: Arc::clone(&positions),
        };
        assert_same(&[&x, &gain], fused, |args| op.composed(&args[0], &args[1]))
    }
}
