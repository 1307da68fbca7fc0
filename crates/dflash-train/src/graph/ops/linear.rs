use candle_core::backend::BackendStorage;
use candle_core::{CpuStorage, CudaStorage, CustomOp2, Layout, MetalStorage, Result, Shape, Tensor};

use super::multiply::{Precision, multiply};

/// `x * weight^T` for rows `[rows, inputs]` and a weight `[outputs, inputs]`. Inputs that nothing was computed for are
/// constant and get no gradient; that of the weight comes out as it lies in memory.
pub fn linear(x: &Tensor, weight: &Tensor, precision: Precision) -> Result<Tensor> {
    x.apply_op2(weight, Linear { constant: !x.track_op(), precision })
}

struct Linear {
    constant: bool,
    precision: Precision,
}

fn product<S: BackendStorage>(
    x: &S,
    x_layout: &Layout,
    weight: &S,
    weight_layout: &Layout,
) -> Result<(S, Shape)> {
    let (rows, inputs) = x_layout.shape().dims2()?;
    let (outputs, _) = weight_layout.shape().dims2()?;
    let out = x.matmul(weight, (1, rows, outputs, inputs), x_layout, &weight_layout.transpose(0, 1)?)?;
    Ok((out, Shape::from((rows, outputs))))
}

impl CustomOp2 for Linear {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        match self.precision.rounded(x, x_layout, weight, &weight_layout.transpose(0, 1)?)? {
            Some(product) => Ok(product),
            None => product(x, x_layout, weight, weight_layout),
        }
    }

    fn cuda_fwd(
        &self,
        x: &CudaStorage,
        x_layout: &Layout,
        weight: &CudaStorage,
        weight_layout: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        product(x, x_layout, weight, weight_layout)
    }

    fn metal_fwd(
        &self,
        x: &MetalStorage,
        x_layout: &Layout,
        weight: &MetalStorage,
        weight_layout: &Layout,
    ) -> Result<(MetalStorage, Shape)> {
        product(x, x_layout, weight, weight_layout)
    }

    fn bwd(
        &self,
        x: &Tensor,
        weight: &Tensor,
        _: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let x_grad = if self.constant { None } else { Some(multiply(grad, weight, self.precision)?) };
        Ok((x_grad, Some(multiply(&grad.t()?, x, self.precision)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::{assert_same, random};
    use super::*;

    #[test]
    fn it_is_a_product_with_the_transposed_weight() -> Result<()> {
        let (x, weight) = (random(&[7, 5], 1)?, random(&[3, 5], 2)?);
        assert_same(
            &[&x, &weight],
            |args| linear(&args[0], &args[1], Precision::F32),
            |args| args[0].matmul(&args[1].t()?),
        )
    }
}
