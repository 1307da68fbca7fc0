use candle_core::backend::BackendStorage;
use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor};

use super::bf16;
use super::product::View;

/// What the products of large matrices are computed from. Weights, sums and all else are f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// As they are.
    F32,
    /// Both matrices are rounded to bf16, on processors with such products; f32 elsewhere.
    Bf16,
}

impl Precision {
    /// The product of matrices on the CPU; `None` where it is not made in bf16.
    pub fn rounded(
        self,
        a: &CpuStorage,
        a_layout: &Layout,
        b: &CpuStorage,
        b_layout: &Layout,
    ) -> Result<Option<(CpuStorage, Shape)>> {
        let (CpuStorage::F32(a), CpuStorage::F32(b)) = (a, b) else { return Ok(None) };
        if self == Self::F32 || !bf16::is_supported() {
            return Ok(None);
        }
        let (a, b) = (View::of(a, a_layout)?, View::of(b, b_layout)?);
        let shape = Shape::from((a.shape().0, b.shape().1));
        Ok(Some((CpuStorage::F32(bf16::product(a, b)), shape)))
    }
}

/// `a * b` for matrices, without gradients.
pub fn multiply(a: &Tensor, b: &Tensor, precision: Precision) -> Result<Tensor> {
    let (a, b) = (a.detach(), b.detach());
    match precision {
        Precision::Bf16 if a.device().is_cpu() => a.apply_op2_no_bwd(&b, &Multiply(precision)),
        _ => a.matmul(&b),
    }
}

struct Multiply(Precision);

impl CustomOp2 for Multiply {
    fn name(&self) -> &'static str {
        "multiply"
    }

    fn cpu_fwd(
        &self,
        a: &CpuStorage,
        a_layout: &Layout,
        b: &CpuStorage,
        b_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        if let Some(product) = self.0.rounded(a, a_layout, b, b_layout)? {
            return Ok(product);
        }
        let ((rows, inner), (_, cols)) = (a_layout.shape().dims2()?, b_layout.shape().dims2()?);
        Ok((a.matmul(b, (1, rows, cols, inner), a_layout, b_layout)?, Shape::from((rows, cols))))
    }
}
