use dflash_tensor::{
    Batch, ConvInputs, ConvSpec, DeltaInputs, DeltaSpec, RecurrentGeometry, RecurrentStore, SeqCache, Tensor,
};

use crate::CpuBackend;

pub(crate) fn state(_backend: &CpuBackend, _geometry: RecurrentGeometry) -> Box<dyn RecurrentStore> {
    unimplemented!()
}

pub(crate) fn gated_delta(
    _backend: &CpuBackend,
    _spec: &DeltaSpec,
    _layer: usize,
    _batch: &Batch,
    _caches: &mut [&mut SeqCache],
    _inputs: DeltaInputs<'_>,
    _out: &mut Tensor,
) {
    unimplemented!()
}

pub(crate) fn short_conv(
    _backend: &CpuBackend,
    _spec: &ConvSpec,
    _layer: usize,
    _batch: &Batch,
    _caches: &mut [&mut SeqCache],
    _inputs: ConvInputs<'_>,
    _out: &mut Tensor,
) {
    unimplemented!()
}
