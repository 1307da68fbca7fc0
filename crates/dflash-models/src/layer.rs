use std::sync::Arc;

use dflash_tensor::{
    Activation, AttentionSpec, Backend, Batch, HeadNorm, KvGeometry, Mask, Pre, Rope, SeqCache, Tail, Tensor,
    Weight,
};

use crate::ModelError;
use crate::loader::{Loader, Wanted};
use crate::workspace::Workspace;

/// Whether linear layers have a bias.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BiasRule {
    /// None has.
    Never,
    /// All have; a missing one is an error.
    Always,
    /// Those have whose bias is in the file.
    IfPresent,
}

/// Sizes and habits of a dense decoder layer.
pub(crate) struct LayerShape {
    pub(crate) hidden: usize,
    pub(crate) ffn: usize,
    pub(crate) heads: usize,
    pub(crate) kv: KvGeometry,
    pub(crate) eps: f32,
    pub(crate) attention_bias: BiasRule,
    pub(crate) mlp_bias: BiasRule,
    /// Norms of every query and key head.
    pub(crate) head_norms: bool,
    /// Rows of q and k stand interleaved in the file.
    pub(crate) interleaved: bool,
    /// q is packed apart from k and v, because some rows need only these.
    pub(crate) split: bool,
}

/// Pre-norm decoder layer: grouped-query attention and a gated MLP.
pub(crate) struct DenseLayer {
    input_norm: Tensor,
    projections: Projections,
    attention: AttentionSpec,
    output: Weight,
    post_norm: Tensor,
    gate_up: Weight,
    down: Weight,
    eps: f32,
}

enum Projections {
    Fused(Weight),
    Split { q: Weight, kv: Weight },
}

impl DenseLayer {
    /// Reads the layer whose tensors begin with `prefix` (without the dot).
    pub(crate) fn load(
        loader: &mut Loader<'_, '_>,
        prefix: &str,
        shape: &LayerShape,
        rope: &Arc<Rope>,
        mask: Mask,
    ) -> Result<Self, ModelError> {
        let norm = |name: &str| format!("{prefix}.{name}.weight");
        Ok(Self {
            input_norm: loader.gain(&norm("input_layernorm"), shape.hidden)?,
            projections: Projections::load(loader, prefix, shape)?,
            attention: attention(loader, prefix, shape, rope, mask)?,
            output: shape.output(loader, prefix)?,
            post_norm: loader.gain(&norm("post_attention_layernorm"), shape.hidden)?,
            gate_up: shape.gate_up(loader, prefix)?,
            down: shape.down(loader, prefix)?,
            eps: shape.eps,
        })
    }

    /// One pass over the rows of `batch`: `ws.h` goes in and comes out.
    pub(crate) fn forward(
        &self,
        backend: &dyn Backend,
        index: usize,
        batch: &Batch,
        caches: &mut [&mut SeqCache],
        ws: &mut Workspace,
    ) {
        let input = Pre::RmsNorm { weight: &self.input_norm, eps: self.eps };
        let post = Pre::RmsNorm { weight: &self.post_norm, eps: self.eps };
        self.projections.run(backend, input, ws);
        let (q, k, v) = (&mut ws.q, &mut ws.k, &ws.v);
        backend.attention(&self.attention, index, batch, caches, q, Some((k, v)), &mut ws.mixed);
        backend.linear(&self.output, &ws.mixed, Pre::None, Tail::Add, &mut [&mut ws.h]);
        backend.linear(&self.gate_up, &ws.h, post, Tail::Glu(Activation::Silu), &mut [&mut ws.act]);
        backend.linear(&self.down, &ws.act, Pre::None, Tail::Add, &mut [&mut ws.h]);
    }

    /// Appends keys and values of `x` as they are, without input norm, to the caches.
    pub(crate) fn append(
        &self,
        backend: &dyn Backend,
        index: usize,
        batch: &Batch,
        caches: &mut [&mut SeqCache],
        x: &Tensor,
        [k, v]: [&mut Tensor; 2],
    ) {
        let Projections::Split { kv, .. } = &self.projections else {
            unreachable!("a layer that appends alone has its keys and values packed apart");
        };
        backend.linear(kv, x, Pre::None, Tail::Store, &mut [&mut *k, &mut *v]);
        backend.append(&self.attention, index, batch, caches, k, v);
    }
}

impl Projections {
    fn load(loader: &mut Loader<'_, '_>, prefix: &str, shape: &LayerShape) -> Result<Self, ModelError> {
        let [q, k, v] = shape.qkv(loader, prefix)?;
        if shape.split {
            return Ok(Self::Split { q: loader.weight(&[q])?, kv: loader.weight(&[k, v])? });
        }
        Ok(Self::Fused(loader.weight(&[q, k, v])?))
    }

    fn run(&self, backend: &dyn Backend, pre: Pre<'_>, ws: &mut Workspace) {
        match self {
            Self::Fused(qkv) => {
                backend.linear(qkv, &ws.h, pre, Tail::Store, &mut [&mut ws.q, &mut ws.k, &mut ws.v]);
            }
            Self::Split { q, kv } => {
                backend.linear(q, &ws.h, pre, Tail::Store, &mut [&mut ws.q]);
                backend.linear(kv, &ws.h, pre, Tail::Store, &mut [&mut ws.k, &mut ws.v]);
            }
        }
    }
}

fn attention(
    loader: &mut Loader<'_, '_>,
    prefix: &str,
    shape: &LayerShape,
    rope: &Arc<Rope>,
    mask: Mask,
) -> Result<AttentionSpec, ModelError> {
    let mut norm = |name: &str| match shape.head_norms {
        false => Ok(None),
        true => {
            let weight = loader.gain(&format!("{prefix}.self_attn.{name}.weight"), shape.kv.dim)?;
            Ok(Some(HeadNorm { weight, eps: shape.eps }))
        }
    };
    Ok(AttentionSpec {
        heads: shape.heads,
        kv: shape.kv,
        scale: (shape.kv.dim as f32).powf(-0.5),
        softcap: None,
        q_norm: norm("q_norm")?,
        k_norm: norm("k_norm")?,
        rope: Arc::clone(rope),
        mask,
    })
}

impl LayerShape {
    fn qkv(&self, loader: &mut Loader<'_, '_>, prefix: &str) -> Result<[Wanted; 3], ModelError> {
        let mut matrix = |name: &str, heads: usize, rotated: bool| {
            let module = format!("{prefix}.self_attn.{name}");
            let mut wanted =
                with_bias(loader, module, heads * self.kv.dim, self.hidden, self.attention_bias)?;
            if self.interleaved && rotated {
                deinterleave(&mut wanted, self.kv.dim);
            }
            Ok(wanted)
        };
        Ok([
            matrix("q_proj", self.heads, true)?,
            matrix("k_proj", self.kv.heads, true)?,
            matrix("v_proj", self.kv.heads, false)?,
        ])
    }

    fn output(&self, loader: &mut Loader<'_, '_>, prefix: &str) -> Result<Weight, ModelError> {
        let (module, cols) = (format!("{prefix}.self_attn.o_proj"), self.heads * self.kv.dim);
        let output = with_bias(loader, module, self.hidden, cols, self.attention_bias)?;
        loader.weight(&[output])
    }

    fn gate_up(&self, loader: &mut Loader<'_, '_>, prefix: &str) -> Result<Weight, ModelError> {
        let mut matrix = |name: &str| {
            with_bias(loader, format!("{prefix}.mlp.{name}"), self.ffn, self.hidden, self.mlp_bias)
        };
        let parts = [matrix("gate_proj")?, matrix("up_proj")?];
        loader.weight(&parts)
    }

    fn down(&self, loader: &mut Loader<'_, '_>, prefix: &str) -> Result<Weight, ModelError> {
        let module = format!("{prefix}.mlp.down_proj");
        let down = with_bias(loader, module, self.hidden, self.ffn, self.mlp_bias)?;
        loader.weight(&[down])
    }
}

fn with_bias(
    loader: &mut Loader<'_, '_>,
    module: String,
    rows: usize,
    cols: usize,
    rule: BiasRule,
) -> Result<Wanted, ModelError> {
    let name = format!("{module}.bias");
    let has = match rule {
        BiasRule::Never => false,
        BiasRule::Always => true,
        BiasRule::IfPresent => loader.checkpoint().contains(&name),
    };
    let bias = if has { Some(loader.floats(&name, rows)?) } else { None };
    Ok(Wanted { bias, ..Wanted::new(module, rows, cols) })
}

/// Brings the even and odd rows of every head, as GGUF stores them, back into two halves.
fn deinterleave(wanted: &mut Wanted, dim: usize) {
    let half = dim / 2;
    let row = |out: usize| out / dim * dim + 2 * (out % dim % half) + out % dim / half;
    let order = (0..wanted.rows).map(row).collect::<Vec<_>>();
    if let Some(bias) = &mut wanted.bias {
        *bias = order.iter().map(|&row| bias[row]).collect();
    }
    wanted.order = Some(order.into_iter().map(|row| row as u32).collect());
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
