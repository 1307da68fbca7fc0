use dflash_tensor::{Experts, Tensor};

use crate::CpuBackend;

pub(crate) fn experts(
    _backend: &CpuBackend,
    _experts: &Experts,
    _scores: &Tensor,
    _x: &Tensor,
    _out: &mut Tensor,
) {
    unimplemented!()
}
