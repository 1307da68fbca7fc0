use candle_core::{CpuStorage, Error, InplaceOp2, Layout, Result, Tensor, Var};
use rayon::prelude::*;

use super::ops::floats;

/// Values that a thread takes at a time.
const CHUNK: usize = 1 << 14;

/// Constants of AdamW (Loshchilov and Hutter, arXiv 1711.05101).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamW {
    /// Of the mean of the gradients.
    pub beta1: f64,
    /// Of the mean of their squares.
    pub beta2: f64,
    /// Added to the root of the latter.
    pub eps: f64,
    /// Times the learning rate, what a matrix loses in a step.
    pub weight_decay: f64,
}

impl Default for AdamW {
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.95, eps: 1e-8, weight_decay: 0.01 }
    }
}

/// Means of the gradients of a variable.
pub struct Moments {
    /// The mean and the mean of squares, `[2, ...]`.
    pub both: Tensor,
}

impl Moments {
    pub fn new(like: &Tensor) -> Result<Self> {
        Ok(Self { both: Tensor::stack(&[like.zeros_like()?, like.zeros_like()?], 0)? })
    }
}

/// One update.
#[derive(Debug, Clone, Copy)]
pub struct Update {
    pub adam: AdamW,
    pub rate: f64,
    /// Multiplies the gradients.
    pub factor: f64,
    /// Updates that there have been, this one included.
    pub count: i32,
}

impl Update {
    /// Changes a variable and its moments.
    pub fn apply(&self, var: &Var, moments: &mut Moments, grad: &Tensor, decays: bool) -> Result<()> {
        let AdamW { beta1, beta2, eps, weight_decay } = self.adam;
        let step = Step {
            rate: self.rate / (1.0 - beta1.powi(self.count)),
            correction: 1.0 / (1.0 - beta2.powi(self.count)),
            eps,
            keep: if decays { 1.0 - self.rate * weight_decay } else { 1.0 },
        };
        let grad = grad.contiguous()?;
        if var.device().is_cpu() {
            moments.both.inplace_op2(&grad, &Mean { update: *self })?;
            return var.inplace_op2(&moments.both, &step);
        }
        let grad = (grad * self.factor)?;
        let mean = ((moments.both.get(0)? * beta1)? + (&grad * (1.0 - beta1))?)?;
        let square = ((moments.both.get(1)? * beta2)? + (grad.sqr()? * (1.0 - beta2))?)?;
        let change = (&mean * step.rate)?.div(&((&square * step.correction)?.sqrt()? + eps)?)?;
        moments.both = Tensor::stack(&[mean, square], 0)?;
        var.set(&((var.as_tensor() * step.keep)? - change)?)
    }
}

/// Takes a gradient into the moments.
struct Mean {
    update: Update,
}

impl InplaceOp2 for Mean {
    fn name(&self) -> &'static str {
        "adamw-moments"
    }

    fn cpu_fwd(
        &self,
        moments: &mut CpuStorage,
        _: &Layout,
        grad: &CpuStorage,
        layout: &Layout,
    ) -> Result<()> {
        let Update { adam: AdamW { beta1, beta2, .. }, factor, .. } = self.update;
        let ([beta1, beta2], factor) = ([beta1, beta2].map(|beta| beta as f32), factor as f32);
        let grad = floats(grad, layout)?;
        let (means, squares) = floats_mut(moments)?.split_at_mut(grad.len());
        means.par_chunks_mut(CHUNK).zip(squares.par_chunks_mut(CHUNK)).zip(grad.par_chunks(CHUNK)).for_each(
            |((means, squares), grad)| {
                for ((mean, square), grad) in means.iter_mut().zip(squares).zip(grad) {
                    let grad = grad * factor;
                    *mean = *mean * beta1 + grad * (1.0 - beta1);
                    *square = *square * beta2 + grad * grad * (1.0 - beta2);
                }
            },
        );
        Ok(())
    }
}

/// Moves a variable.
struct Step {
    rate: f64,
    correction: f64,
    eps: f64,
    keep: f64,
}

impl InplaceOp2 for Step {
    fn name(&self) -> &'static str {
        "adamw-step"
    }

    fn cpu_fwd(&self, var: &mut CpuStorage, _: &Layout, moments: &CpuStorage, layout: &Layout) -> Result<()> {
        let [rate, correction, eps, keep] =
            [self.rate, self.correction, self.eps, self.keep].map(|number| number as f32);
        let (var, moments) = (floats_mut(var)?, floats(moments, layout)?);
        let (means, squares) = moments.split_at(var.len());
        var.par_chunks_mut(CHUNK).zip(means.par_chunks(CHUNK)).zip(squares.par_chunks(CHUNK)).for_each(
            |((var, means), squares)| {
                for ((value, mean), square) in var.iter_mut().zip(means).zip(squares) {
                    *value = *value * keep - rate * mean / ((square * correction).sqrt() + eps);
                }
            },
        );
        Ok(())
    }
}

/// All values of a tensor that has its storage for itself.
fn floats_mut(storage: &mut CpuStorage) -> Result<&mut [f32]> {
    match storage {
        CpuStorage::F32(values) => Ok(values),
        _ => Err(Error::Msg("a tensor is not in f32".into())),
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    /// Two steps with known gradients, computed by hand from the paper's algorithm 2.
    #[test]
    fn it_is_the_algorithm_of_the_paper() -> Result<()> {
        let var = Var::new(&[[1f32, -2.0]], &Device::Cpu)?;
        let mut moments = Moments::new(&var)?;
        let adam = AdamW { beta1: 0.9, beta2: 0.95, eps: 1e-8, weight_decay: 0.1 };
        let (mut value, mut mean, mut square) = ([1f64, -2.0], [0f64; 2], [0f64; 2]);
        for (count, grads) in [[0.5, -0.25], [0.1, 0.4]].into_iter().enumerate() {
            let count = count as i32 + 1;
            let grad = Tensor::new(&[[grads[0] as f32, grads[1] as f32]], &Device::Cpu)?;
            Update { adam, rate: 0.01, factor: 2.0, count }.apply(&var, &mut moments, &grad, true)?;
            for place in 0..2 {
                let grad = 2.0 * grads[place];
                mean[place] = 0.9 * mean[place] + 0.1 * grad;
                square[place] = 0.95 * square[place] + 0.05 * grad * grad;
                let (m, v) =
                    (mean[place] / (1.0 - 0.9f64.powi(count)), square[place] / (1.0 - 0.95f64.powi(count)));
                value[place] -= 0.01 * (m / (v.sqrt() + 1e-8) + 0.1 * value[place]);
            }
        }
        for (got, want) in var.to_vec2::<f32>()?[0].iter().zip(value) {
            assert!((f64::from(*got) - want).abs() < 1e-6, "{got} and {want}");
        }
        Ok(())
    }
}
