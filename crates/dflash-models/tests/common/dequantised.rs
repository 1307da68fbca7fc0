//! A backend that stores every matrix as f32: what a quantised checkpoint means, without its arithmetic.

use std::sync::Arc;

use dflash_tensor::{
    Activation, Among, AttentionSpec, Backend, BackendError, Batch, Choice, ConvInputs, ConvSpec,
    DeltaInputs, DeltaSpec, Experts, Format, KvGeometry, KvStore, Part, PartData, Pre, RecurrentGeometry,
    RecurrentStore, SeqCache, Tail, Tensor, Weight,
};

/// Passes everything on, after it has taken quantised parts back to f32.
pub struct Dequantised(pub Arc<dyn Backend>);

impl Dequantised {
    /// The values of a part in file order, as little-endian f32.
    fn values(&self, part: &Part<'_>) -> Result<Vec<u8>, BackendError> {
        let plain = Part { bias: None, order: None, ..*part };
        let table = self.0.pack(&[plain])?;
        let mut rows = self.0.tensor(part.rows, part.cols);
        self.0.embed(&table, &(0..part.rows as u32).collect::<Vec<_>>(), 1.0, &mut rows);
        let values = (0..part.rows).flat_map(|row| self.0.read(&rows, row));
        Ok(values.flat_map(f32::to_le_bytes).collect())
    }
}

impl Backend for Dequantised {
    fn numerics(&self) -> String {
        format!("dequantised {}", self.0.numerics())
    }

    fn pack(&self, parts: &[Part<'_>]) -> Result<Weight, BackendError> {
        let values = parts.iter().map(|part| self.values(part)).collect::<Result<Vec<_>, _>>()?;
        let parts = parts.iter().zip(&values).map(|(part, values)| Part {
            format: Format::F32,
            data: PartData::Plain(values),
            ..*part
        });
        self.0.pack(&parts.collect::<Vec<_>>())
    }

    fn name(&self) -> String {
        self.0.name()
    }

    fn tensor(&self, rows: usize, cols: usize) -> Tensor {
        self.0.tensor(rows, cols)
    }

    fn write(&self, tensor: &mut Tensor, row: usize, data: &[f32]) {
        self.0.write(tensor, row, data);
    }

    fn read(&self, tensor: &Tensor, row: usize) -> Vec<f32> {
        self.0.read(tensor, row)
    }

    fn gather(&self, weight: &Weight, ids: &[u32]) -> Weight {
        self.0.gather(weight, ids)
    }

    fn linear(&self, weight: &Weight, x: &Tensor, pre: Pre<'_>, tail: Tail, outs: &mut [&mut Tensor]) {
        self.0.linear(weight, x, pre, tail, outs);
    }

    fn rms_norm(&self, x: &Tensor, weight: &Tensor, eps: f32, out: &mut Tensor) {
        self.0.rms_norm(x, weight, eps, out);
    }

    fn gate(&self, activation: Activation, gate: &Tensor, x: &mut Tensor) {
        self.0.gate(activation, gate, x);
    }

    fn add(&self, x: &Tensor, pre: Pre<'_>, out: &mut Tensor) {
        self.0.add(x, pre, out);
    }

    fn scale(&self, factor: f32, x: &mut Tensor) {
        self.0.scale(factor, x);
    }

    fn softcap(&self, cap: f32, x: &mut Tensor) {
        self.0.softcap(cap, x);
    }

    fn columns(&self, x: &Tensor, col: usize, out: &mut Tensor) {
        self.0.columns(x, col, out);
    }

    fn copy(&self, from: &Tensor, first: usize, rows: usize, to: &mut Tensor, row: usize, col: usize) {
        self.0.copy(from, first, rows, to, row, col);
    }

    fn embed(&self, table: &Weight, ids: &[u32], scale: f32, out: &mut Tensor) {
        self.0.embed(table, ids, scale, out);
    }

    fn kv_block(&self, geometry: KvGeometry) -> Box<dyn KvStore> {
        self.0.kv_block(geometry)
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
        self.0.append(spec, layer, batch, caches, k, v);
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
        self.0.attention(spec, layer, batch, caches, q, kv, out);
    }

    fn recurrent_state(&self, geometry: RecurrentGeometry) -> Box<dyn RecurrentStore> {
        self.0.recurrent_state(geometry)
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
        self.0.gated_delta(spec, layer, batch, caches, inputs, out);
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
        self.0.short_conv(spec, layer, batch, caches, inputs, out);
    }

    fn experts(&self, experts: &Experts, scores: &Tensor, x: &Tensor, out: &mut Tensor) {
        self.0.experts(experts, scores, x, out);
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
        self.0.choose(weight, x, rows, pre, among, out)
    }

    fn logits(&self, weight: &Weight, x: &Tensor, rows: &[usize], pre: Pre<'_>, out: &mut Tensor) {
        self.0.logits(weight, x, rows, pre, out);
    }

    fn sync(&self) -> Result<(), BackendError> {
        self.0.sync()
    }
}
