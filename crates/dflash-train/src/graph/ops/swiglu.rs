use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, Tensor};
use rayon::prelude::*;

use super::{exp, floats, values};

/// `silu(gate) * up` for rows `[gate | up]`, `[rows, 2 * width]`.
pub fn swiglu(gate_up: &Tensor) -> Result<Tensor> {
    if gate_up.device().is_cpu() {
        return gate_up.apply_op1(SwiGlu);
    }
    composed(gate_up)
}

fn composed(gate_up: &Tensor) -> Result<Tensor> {
    let width = gate_up.dim(1)? / 2;
    gate_up.narrow(1, 0, width)?.silu()? * gate_up.narrow(1, width, width)?
}

struct SwiGlu;

impl CustomOp1 for SwiGlu {
    fn name(&self) -> &'static str {
        "swiglu"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (rows, cols) = layout.shape().dims2()?;
        let (x, width) = (floats(x, layout)?, cols / 2);
        let mut out = vec![0.0; rows * width];
        out.par_chunks_mut(width).zip(x.par_chunks(cols)).for_each(|(out, row)| {
            let (gate, up) = row.split_at(width);
            out.iter_mut().zip(gate).zip(up).for_each(|((out, gate), up)| *out = gate * sigmoid(*gate) * up);
        });
        Ok((CpuStorage::F32(out), Shape::from((rows, width))))
    }

    fn bwd(&self, x: &Tensor, _: &Tensor, grad: &Tensor) -> Result<Option<Tensor>> {
        let grad = grad.contiguous()?;
        let (xs, grads) = (values(x)?, values(&grad)?);
        let cols = x.dim(1)?;
        let width = cols / 2;
        let mut out = vec![0.0; xs.len()];
        out.par_chunks_mut(cols).zip(xs.par_chunks(cols)).zip(grads.par_chunks(width)).for_each(
            |((out, row), grad)| {
                let ((gate, up), (gate_grad, up_grad)) = (row.split_at(width), out.split_at_mut(width));
                let outs = gate_grad.iter_mut().zip(up_grad);
                for (((gate_grad, up_grad), (gate, up)), grad) in outs.zip(gate.iter().zip(up)).zip(grad) {
                    let open = sigmoid(*gate);
                    let silu = gate * open;
                    *up_grad = grad * silu;
                    *gate_grad = grad * up * (open + silu * (1.0 - open));
                }
            },
        );
        Tensor::from_vec(out, x.shape(), x.device()).map(Some)
    }
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::super::check::{assert_same, random};
    use super::*;

    #[test]
    fn fused_is_composed() -> Result<()> {
        let x = random(&[5, 12], 1)?;
        assert_same(&[&x], |x| swiglu(&x[0]), |x| composed(&x[0]))
    }

    #[test]
    fn large_gates_give_finite_numbers() -> Result<()> {
        let x = Tensor::new(&[[1000f32, -1000.0, 2.0, 3.0]], &Device::Cpu)?;
        let out = swiglu(&x)?.to_vec2::<f32>()?;
        assert_eq!(out[0][0], 2000.0);
        assert!(out[0][1].abs() < 1e-30);
        Ok(())
    }
}
