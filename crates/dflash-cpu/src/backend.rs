use std::sync::{Arc, Mutex, MutexGuard};

use dflash_tensor::{
    Activation, Among, AttentionSpec, Backend, BackendError, Batch, Choice, ConvInputs, ConvSpec,
    DeltaInputs, DeltaSpec, Experts, KvGeometry, KvStore, Part, Pre, RecurrentGeometry, RecurrentStore,
    SeqCache, Tail, Tensor, Weight,
};

use crate::choose::ChooseBuffers;
use crate::experts::ExpertBuffers;
use crate::inputs::{InputBuffers, Matrix, Request};
use crate::memory::Memory;
use crate::pack::Trail;
use crate::pool::Pool;
use crate::work::{Meter, Work};
use crate::{
    Cores, Isa, attention, choose, elementwise, embed, experts, host, kv, linear, norm, pack, recurrent,
};

/// The operations on the cores of this machine.
pub struct CpuBackend {
    pub(crate) pool: Arc<Pool>,
    pub(crate) isa: Isa,
    pub(crate) meter: Meter,
    scratch: Mutex<Scratch>,
    memory: Mutex<Memory>,
}

/// Storage that operations reuse, so that none is allocated once it has grown.
#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) inputs: InputBuffers,
    pub(crate) choose: ChooseBuffers,
    pub(crate) experts: ExpertBuffers,
    pub(crate) trail: Trail,
}

impl CpuBackend {
    /// A backend of `threads` threads, the caller included, with the kernels of `isa`.
    ///
    /// # Panics
    /// When this machine lacks the instructions.
    pub fn new(threads: usize, isa: Isa) -> Self {
        assert!(isa.is_available(), "this machine has no {}", isa.name());
        Self {
            pool: Arc::new(Pool::new(threads)),
            isa,
            meter: Meter::default(),
            scratch: Mutex::default(),
            memory: Mutex::default(),
        }
    }

    /// The best kernels with a thread on every physical core: a second one would share its arithmetic.
    pub fn detect() -> Self {
        Self::new(Cores::detect().physical, Isa::detect())
    }

    /// Threads that take part in an operation.
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }

    /// Kernels in use.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// What all operations so far have read and multiplied.
    pub fn work(&self) -> Work {
        self.meter.work()
    }

    /// Its contents never matter between operations, so a panic in one of them does no harm.
    pub(crate) fn scratch(&self) -> MutexGuard<'_, Scratch> {
        self.scratch.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl CpuBackend {
    /// Where weights are kept.
    pub(crate) fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// See [`Backend::numerics`].
const NUMERICS: u32 = 1;

impl Backend for CpuBackend {
    fn numerics(&self) -> String {
        format!("cpu {NUMERICS}")
    }

    fn name(&self) -> String {
        let threads = self.threads();
        format!("cpu ({}, {threads} thread{})", self.isa.name(), if threads == 1 { "" } else { "s" })
    }

    fn tensor(&self, rows: usize, cols: usize) -> Tensor {
        host::tensor(rows, cols)
    }

    fn write(&self, tensor: &mut Tensor, row: usize, data: &[f32]) {
        let cols = tensor.cols();
        assert!(data.len().is_multiple_of(cols), "{} elements in rows of {cols}", data.len());
        host::rows_mut(tensor)[row * cols..][..data.len()].copy_from_slice(data);
    }

    fn read(&self, tensor: &Tensor, row: usize) -> Vec<f32> {
        let cols = tensor.cols();
        host::rows(tensor)[row * cols..][..cols].to_vec()
    }

    fn pack(&self, parts: &[Part<'_>]) -> Result<Weight, BackendError> {
        pack::pack(self, parts)
    }

    fn gather(&self, weight: &Weight, ids: &[u32]) -> Weight {
        pack::gather(self, weight, ids)
    }

    fn linear(&self, weight: &Weight, x: &Tensor, pre: Pre<'_>, tail: Tail, outs: &mut [&mut Tensor]) {
        linear::linear(self, weight, x, pre, tail, outs);
    }

    fn rms_norm(&self, x: &Tensor, weight: &Tensor, eps: f32, out: &mut Tensor) {
        norm::rms_norm(self, x, weight, eps, out);
    }

    fn copy(
        &self,
        source: &Tensor,
        source_row: usize,
        rows: usize,
        target: &mut Tensor,
        row: usize,
        col: usize,
    ) {
        host::copy(source, source_row..source_row + rows, target, row, col);
    }

    fn gate(&self, activation: Activation, gate: &Tensor, x: &mut Tensor) {
        elementwise::gate(self, activation, gate, x);
    }

    fn add(&self, x: &Tensor, pre: Pre<'_>, out: &mut Tensor) {
        elementwise::add(self, x, pre, out);
    }

    fn scale(&self, factor: f32, x: &mut Tensor) {
        elementwise::scale(self, factor, x);
    }

    fn softcap(&self, cap: f32, x: &mut Tensor) {
        elementwise::softcap(self, cap, x);
    }

    fn columns(&self, x: &Tensor, col: usize, out: &mut Tensor) {
        elementwise::columns(x, col, out);
    }

    fn embed(&self, table: &Weight, ids: &[u32], scale: f32, out: &mut Tensor) {
        embed::embed(self, table, ids, scale, out);
    }

    fn kv_block(&self, geometry: KvGeometry) -> Box<dyn KvStore> {
        kv::new_block(geometry)
    }

    fn append(
        &self,
        spec: &AttentionSpec,
        layer: usize,
        batch: &Batch,
        caches: &mut [&mut SeqCache],
        k: &mut Tensor,
        v: &Tensor,
    ) {
        attention::append(self, spec, layer, batch, caches, k, v);
    }

    fn attention(
        &self,
        spec: &AttentionSpec,
        layer: usize,
        batch: &Batch,
        caches: &mut [&mut SeqCache],
        q: &mut Tensor,
        kv: Option<(&mut Tensor, &Tensor)>,
        out: &mut Tensor,
    ) {
        attention::attend(self, spec, layer, batch, caches, q, kv, out);
    }

    fn recurrent_state(&self, geometry: RecurrentGeometry) -> Box<dyn RecurrentStore> {
        recurrent::state(self, geometry)
    }

    fn gated_delta(
        &self,
        spec: &DeltaSpec,
        layer: usize,
        batch: &Batch,
        caches: &mut [&mut SeqCache],
        inputs: DeltaInputs<'_>,
        out: &mut Tensor,
    ) {
        recurrent::gated_delta(self, spec, layer, batch, caches, inputs, out);
    }

    fn short_conv(
        &self,
        spec: &ConvSpec,
        layer: usize,
        batch: &Batch,
        caches: &mut [&mut SeqCache],
        inputs: ConvInputs<'_>,
        out: &mut Tensor,
    ) {
        recurrent::short_conv(self, spec, layer, batch, caches, inputs, out);
    }

    fn experts(&self, experts: &Experts, scores: &Tensor, x: &Tensor, out: &mut Tensor) {
        experts::experts(self, experts, scores, x, out);
    }

    fn choose(
        &self,
        weight: &Weight,
        x: &Tensor,
        rows: &[usize],
        pre: Pre<'_>,
        among: Among,
        out: &mut Vec<Choice>,
    ) -> Result<(), BackendError> {
        choose::choose(self, weight, &Request { x: Matrix::of(x), rows: Some(rows), pre }, among, out)
    }

    fn logits(&self, weight: &Weight, x: &Tensor, rows: &[usize], pre: Pre<'_>, out: &mut Tensor) {
        linear::logits(self, weight, x, rows, pre, out);
    }

    /// Operations are done when they return, so there is nothing to wait for.
    fn sync(&self) -> Result<(), BackendError> {
        Ok(())
    }
}
