use std::sync::Arc;

use dflash_tensor::{
    Activation, AttentionSpec, Backend, HeadNorm, Keep, KvGeometry, Mask, Pre, Rope, Tail, Tensor, Weight,
};

use crate::dense_layer::{gain, unpacked};
use crate::loader::{BiasRule, Loader, NormRule, Wanted};
use crate::pass::{Pass, Sink};
use crate::projections::{Projected, Projections};
use crate::{DenseLayer, ModelError};

/// Sizes and habits of grouped-query attention.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AttentionShape {
    pub(crate) hidden: usize,
    pub(crate) heads: usize,
    pub(crate) kv: KvGeometry,
    /// Multiplies q·k.
    pub(crate) scale: f32,
    pub(crate) eps: f32,
    /// Biases of q, k and v.
    pub(crate) qkv_bias: BiasRule,
    pub(crate) output_bias: BiasRule,
    /// Norms of every query and key head.
    pub(crate) head_norms: Option<NormRule>,
    /// A gate stands behind the query of every head; its sigmoid multiplies the head's output.
    pub(crate) output_gate: bool,
    /// Rows of q and k stand interleaved in the file.
    pub(crate) interleaved: bool,
}

/// Grouped-query attention between its projections.
pub(crate) struct Attention {
    projections: Projections,
    /// Norm of every value head.
    value_norm: Option<HeadNorm>,
    spec: AttentionSpec,
    output: Weight,
}

/// Where a layer whose value heads are normalised has its values from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueSource {
    /// A projection of their own.
    Projection,
    /// The key projection, before the norm and rotation of keys.
    Keys,
    /// Keys and values are those that an earlier layer has appended.
    Shared,
}

impl Attention {
    /// Reads the attention whose tensors begin with `prefix` (without the dot).
    pub(crate) fn load(
        loader: &mut Loader<'_, '_>,
        prefix: &str,
        shape: &AttentionShape,
        rope: &Arc<Rope>,
        mask: Mask,
    ) -> Result<Self, ModelError> {
        let qkv = shape.qkv(loader, prefix)?;
        let projections = match shape.output_gate {
            true => Projections::Gated(loader.weight(&with_gate(qkv, shape))?),
            false => Projections::Fused(loader.weight(&qkv)?),
        };
        Self::around(projections, loader, prefix, shape, rope, mask)
    }

    /// As [`Attention::load`], with keys and values that can be appended alone.
    pub(crate) fn load_split(
        loader: &mut Loader<'_, '_>,
        prefix: &str,
        shape: &AttentionShape,
        rope: &Arc<Rope>,
        mask: Mask,
    ) -> Result<Self, ModelError> {
        let [q, k, v] = shape.qkv(loader, prefix)?;
        let projections = Projections::Split { q: loader.weight(&[q])?, kv: loader.weight(&[k, v])? };
        Self::around(projections, loader, prefix, shape, rope, mask)
    }

    /// As [`Attention::load`], with value heads that are normalised without gain.
    pub(crate) fn load_normed_values(
        loader: &mut Loader<'_, '_>,
        prefix: &str,
        shape: &AttentionShape,
        source: ValueSource,
        rope: &Arc<Rope>,
        mask: Mask,
    ) -> Result<Self, ModelError> {
        let projections = match source {
            ValueSource::Projection => Projections::Fused(shape.pack(loader, prefix, &[Q, K, V])?),
            ValueSource::Keys => Projections::KeysAsValues(shape.pack(loader, prefix, &[Q, K])?),
            ValueSource::Shared => Projections::Queries(shape.pack(loader, prefix, &[Q])?),
        };
        let weight = loader.tensor(shape.kv.dim, &vec![1.0; shape.kv.dim]);
        let attention = Self::around(projections, loader, prefix, shape, rope, mask)?;
        Ok(Self { value_norm: Some(HeadNorm { weight, eps: shape.eps }), ..attention })
    }

    fn around(
        projections: Projections,
        loader: &mut Loader<'_, '_>,
        prefix: &str,
        shape: &AttentionShape,
        rope: &Arc<Rope>,
        mask: Mask,
    ) -> Result<Self, ModelError> {
        let k_norm = match projections {
            Projections::Queries(_) => None,
            _ => shape.head_norm(loader, &format!("{prefix}.k_norm.weight"))?,
        };
        let spec = AttentionSpec {
            heads: shape.heads,
            kv: shape.kv,
            scale: shape.scale,
            softcap: None,
            q_norm: shape.head_norm(loader, &format!("{prefix}.q_norm.weight"))?,
            k_norm,
            rope: Arc::clone(rope),
            mask,
        };
        Ok(Self { projections, value_norm: None, spec, output: shape.output(loader, prefix)? })
    }

    /// Keys and values of a layer.
    pub(crate) fn geometry(&self) -> KvGeometry {
        self.spec.kv
    }

    /// Committed positions that later rows can still see.
    pub(crate) fn keep(&self) -> Option<Keep> {
        self.spec.mask.window.map(|window| Keep { sink: 0, tail: window })
    }

    /// Its share of a [`DenseLayer`]; `None` where it is more than grouped-query attention of whole rotated heads.
    pub(crate) fn dense(&self, backend: &dyn Backend) -> Option<DenseLayer> {
        let AttentionSpec {
            heads,
            kv,
            rope,
            q_norm,
            k_norm,
            softcap: None,
            mask: Mask { causal: true, .. },
            ..
        } = &self.spec
        else {
            return None;
        };
        let Projections::Fused(qkv) = &self.projections else { return None };
        let plain = self.value_norm.is_none()
            && rope.dims() == kv.dim
            && self.spec.scale == (kv.dim as f32).powf(-0.5);
        let [q, k, v] = plain.then(|| unpacked(backend, qkv))?;
        let [o] = unpacked(backend, &self.output);
        let norm = |norm: &Option<HeadNorm>| norm.as_ref().map(|norm| gain(backend, &norm.weight));
        Some(DenseLayer {
            heads: *heads,
            kv_heads: kv.heads,
            head_dim: kv.dim,
            rope_theta: rope.base(),
            q,
            k,
            v,
            o,
            q_norm: norm(q_norm),
            k_norm: norm(k_norm),
            ..DenseLayer::default()
        })
    }

    /// Attention of `pre` of the residual stream, on layer `layer` of the caches.
    pub(crate) fn forward(&self, pass: &mut Pass<'_, '_>, layer: usize, pre: Pre<'_>, sink: Sink<'_>) {
        let Projected { mut q, gate, mut k, v } = self.projections.run(pass, pre);
        let v = self.values(pass, k.as_ref(), v);
        let mut mixed = pass.ws.take(q.cols());
        let kv = k.as_mut().zip(v.as_ref());
        pass.backend.attention(&self.spec, layer, pass.batch, pass.caches, &mut q, kv, &mut mixed);
        if let Some(gate) = &gate {
            pass.backend.gate(Activation::Sigmoid, gate, &mut mixed);
        }
        pass.output(&self.output, &mixed, sink);
        pass.ws.put([q, mixed]);
        pass.ws.put([gate, k, v].into_iter().flatten());
    }

    fn values(&self, pass: &mut Pass<'_, '_>, k: Option<&Tensor>, v: Option<Tensor>) -> Option<Tensor> {
        let Some(norm) = &self.value_norm else { return v };
        let raw = v.as_ref().or(k)?;
        let mut normed = pass.ws.take(raw.cols());
        pass.backend.rms_norm(raw, &norm.weight, norm.eps, &mut normed);
        pass.ws.put(v);
        Some(normed)
    }

    /// Appends keys and values of `x` as they are, without input norm, to the caches.
    pub(crate) fn append(&self, pass: &mut Pass<'_, '_>, layer: usize, x: &Tensor) {
        let Projections::Split { kv, .. } = &self.projections else {
            unreachable!("a layer that appends alone has its keys and values packed apart");
        };
        let [mut k, mut v] = [0, 1].map(|part| pass.ws.take(kv.parts()[part].rows));
        pass.backend.linear(kv, x, Pre::None, Tail::Store, &mut [&mut k, &mut v]);
        pass.backend.append(&self.spec, layer, pass.batch, pass.caches, &mut k, &v);
        pass.ws.put([k, v]);
    }
}

/// One of the projections before attention.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Projection {
    Q,
    K,
    V,
}

use Projection::{K, Q, V};

impl AttentionShape {
    fn qkv(&self, loader: &mut Loader<'_, '_>, prefix: &str) -> Result<[Wanted; 3], ModelError> {
        let mut matrix = |which| self.matrix(loader, prefix, which);
        Ok([matrix(Q)?, matrix(K)?, matrix(V)?])
    }

    fn pack(
        &self,
        loader: &mut Loader<'_, '_>,
        prefix: &str,
        which: &[Projection],
    ) -> Result<Weight, ModelError> {
        let wanted = which.iter().map(|&which| self.matrix(loader, prefix, which));
        let wanted = wanted.collect::<Result<Vec<_>, _>>()?;
        loader.weight(&wanted)
    }

    fn matrix(
        &self,
        loader: &mut Loader<'_, '_>,
        prefix: &str,
        which: Projection,
    ) -> Result<Wanted, ModelError> {
        let (name, heads) = match which {
            Q => ("q_proj", self.heads * (1 + usize::from(self.output_gate))),
            K => ("k_proj", self.kv.heads),
            V => ("v_proj", self.kv.heads),
        };
        let (module, rows) = (format!("{prefix}.{name}"), heads * self.kv.dim);
        let mut wanted = loader.wanted(module, rows, self.hidden, self.qkv_bias)?;
        if self.interleaved && which != V {
            deinterleave(&mut wanted, self.kv.dim);
        }
        Ok(wanted)
    }

    fn head_norm(&self, loader: &mut Loader<'_, '_>, name: &str) -> Result<Option<HeadNorm>, ModelError> {
        let load = |rule| {
            let weight = loader.gain(name, self.kv.dim, rule)?;
            Ok(HeadNorm { weight, eps: self.eps })
        };
        self.head_norms.map(load).transpose()
    }

    fn output(&self, loader: &mut Loader<'_, '_>, prefix: &str) -> Result<Weight, ModelError> {
        let (module, cols) = (format!("{prefix}.o_proj"), self.heads * self.kv.dim);
        let output = loader.wanted(module, self.hidden, cols, self.output_bias)?;
        loader.weight(&[output])
    }
}

/// Takes the rows of q apart: of every head first the query, then the gate.
fn with_gate([q, k, v]: [Wanted; 3], shape: &AttentionShape) -> [Wanted; 4] {
    let dim = shape.kv.dim;
    let half = |offset: usize| -> Vec<u32> {
        (0..shape.heads * dim).map(|row| (row / dim * 2 * dim + offset + row % dim) as u32).collect()
    };
    [q.rows_of(half(0)), q.rows_of(half(dim)), k, v]
}

/// Brings the even and odd rows of every head, as GGUF stores them, back into two halves.
fn deinterleave(wanted: &mut Wanted, dim: usize) {
    let half = dim / 2;
    let row = |out: usize| out / dim * dim + 2 * (out % dim % half) + out % dim / half;
    *wanted = wanted.rows_of((0..wanted.rows).map(|out| row(out) as u32).collect());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interleaved_rows_come_back_in_halves() {
        let mut wanted = Wanted::new("q", 8, 1);
        wanted.bias = Some((0..8u8).map(f32::from).collect());
        deinterleave(&mut wanted, 4);
        assert_eq!(wanted.order, Some(vec![0, 2, 1, 3, 4, 6, 5, 7]));
        assert_eq!(wanted.bias, Some(vec![0.0, 2.0, 1.0, 3.0, 4.0, 6.0, 5.0, 7.0]));
    }
}
