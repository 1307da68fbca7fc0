//! Attention against softmax in f64, written from the docs of mask, norm and rotary embedding.

use std::sync::Arc;

use half::f16;

use super::data::{Random, all, filled, normalised, wide};
use crate::{
    AttentionSpec, Backend, Batch, HeadNorm, Keep, KvCache, KvGeometry, LayerCache, Mask, Rope, RopeScaling,
    SeqCache, Shape, Span, Tensor,
};

/// Sizes and mask of a layer to try.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layer {
    pub(super) heads: usize,
    pub(super) kv: KvGeometry,
    pub(super) mask: Mask,
    /// Norms of heads, a soft cap, and a rotary embedding of half a head.
    pub(super) elaborate: bool,
}

impl Layer {
    pub(super) fn new(heads: usize, kv_heads: usize, dim: usize, mask: Mask) -> Self {
        Self { heads, kv: KvGeometry { heads: kv_heads, dim }, mask, elaborate: false }
    }

    pub(super) fn elaborate(self) -> Self {
        Self { elaborate: true, ..self }
    }

    pub(super) fn spec(&self, backend: &dyn Backend) -> AttentionSpec {
        let dim = self.kv.dim;
        let norm = |salt| {
            let weight = filled(backend, dim, &gains(dim, salt));
            self.elaborate.then_some(HeadNorm { weight, eps: 1e-6 })
        };
        let rotary = if self.elaborate { dim / 4 * 2 } else { dim };
        AttentionSpec {
            heads: self.heads,
            kv: self.kv,
            scale: (dim as f32).powf(-0.5),
            softcap: self.elaborate.then_some(1.5),
            q_norm: norm(11),
            k_norm: norm(12),
            rope: Arc::new(Rope::new(rotary, 1000.0, &RopeScaling::Default, 2048)),
            mask: self.mask,
        }
    }

    /// An empty cache of this layer; a window drops what no row sees any more.
    pub(super) fn cache(&self) -> SeqCache {
        let window = self.mask.window.filter(|_| self.mask.keep.is_none());
        let keep = self.mask.keep.or(window.map(|tail| Keep { sink: 0, tail }));
        SeqCache::new(vec![LayerCache::Kv(KvCache::new(self.kv, keep))])
    }
}

fn gains(dim: usize, salt: u64) -> Vec<f32> {
    Random(salt).floats(dim).into_iter().map(|x| 1.0 + 0.2 * x).collect()
}

/// The row of token `id`: query (salt 1), key (2) or value (3), whatever its position.
pub(super) fn token(id: u32, cols: usize, salt: u64) -> Vec<f32> {
    Random(u64::from(id) << 8 | salt).floats(cols)
}

pub(super) fn tokens(backend: &dyn Backend, ids: &[u32], cols: usize, salt: u64) -> Tensor {
    let data: Vec<f32> = ids.iter().flat_map(|&id| token(id, cols, salt)).collect();
    filled(backend, cols, &data)
}

/// Attention of all rows of `batch`.
pub(super) fn attend(
    backend: &dyn Backend,
    spec: &AttentionSpec,
    batch: &Batch,
    caches: &mut [&mut SeqCache],
) -> Vec<f32> {
    let (q_cols, k_cols) = (spec.heads * spec.kv.dim, spec.kv.heads * spec.kv.dim);
    let mut q = tokens(backend, batch.ids(), q_cols, 1);
    let mut k = tokens(backend, batch.ids(), k_cols, 2);
    let v = tokens(backend, batch.ids(), k_cols, 3);
    let mut out = backend.tensor(batch.rows() + 1, q_cols);
    backend.attention(spec, 0, batch, caches, &mut q, Some((&mut k, &v)), &mut out);
    assert_eq!(out.rows(), batch.rows(), "rows of the output");
    all(backend, &out)
}

/// A span through the cache, not settled.
pub(super) fn span(
    backend: &dyn Backend,
    spec: &AttentionSpec,
    ids: &[u32],
    shape: Shape,
    cache: &mut SeqCache,
) -> Vec<f32> {
    let mut batch = Batch::new();
    batch.push(ids, cache.len(), shape);
    cache.begin_verify(ids.len());
    attend(backend, spec, &batch, &mut [cache])
}

/// A chain through the cache, all accepted.
pub(super) fn chain(
    backend: &dyn Backend,
    spec: &AttentionSpec,
    ids: &[u32],
    cache: &mut SeqCache,
) -> Vec<f32> {
    let out = span(backend, spec, ids, Shape::Chain, cache);
    cache.accept_chain(ids.len());
    out
}

/// `ids` appended without attending, all accepted.
pub(super) fn append(backend: &dyn Backend, spec: &AttentionSpec, ids: &[u32], cache: &mut SeqCache) {
    let cols = spec.kv.heads * spec.kv.dim;
    let mut batch = Batch::new();
    batch.push(ids, cache.len(), Shape::Chain);
    cache.begin_verify(ids.len());
    let (mut k, v) = (tokens(backend, ids, cols, 2), tokens(backend, ids, cols, 3));
    backend.append(spec, 0, &batch, &mut [cache], &mut k, &v);
    cache.accept_chain(ids.len());
}

struct Oracle<'a> {
    layer: &'a Layer,
    spec: &'a AttentionSpec,
    /// Ids of the committed positions.
    committed: &'a [u32],
    ids: &'a [u32],
    span: &'a Span,
}

impl Oracle<'_> {
    fn prepared(&self, head: &[f32], salt: u64, position: usize) -> Vec<f64> {
        let mut x = wide(head);
        if self.layer.elaborate {
            x = normalised(&x, &gains(x.len(), salt), 1e-6);
        }
        let (cos, sin) = self.spec.rope.at(position);
        for (i, (&cos, &sin)) in cos.iter().zip(sin).enumerate() {
            let (a, b, cos, sin) = (x[i], x[i + cos_len(self.spec)], f64::from(cos), f64::from(sin));
            (x[i], x[i + cos_len(self.spec)]) = (a * cos - b * sin, b * cos + a * sin);
        }
        x
    }

    /// Ids and positions of the keys that row `row` sees.
    fn seen(&self, row: usize) -> Vec<(u32, usize)> {
        let (mask, start, q) = (&self.layer.mask, self.span.start, self.span.position(row));
        let inside = |k: usize| mask.window.is_none_or(|window| k > q || q - k < window);
        let kept = |k: usize| mask.keep.is_none_or(|keep| k < keep.sink || k + keep.tail >= start);
        let committed = self.committed.iter().enumerate().filter(|&(k, _)| kept(k));
        let own = (0..self.ids.len()).filter(|&other| self.is_own(row, other));
        committed
            .map(|(k, &id)| (id, k))
            .chain(own.map(|other| (self.ids[other], self.span.position(other))))
            .filter(|&(_, k)| inside(k))
            .collect()
    }

    fn is_own(&self, row: usize, other: usize) -> bool {
        match &self.span.shape {
            Shape::Chain => !self.layer.mask.causal || other <= row,
            Shape::Tree(parents) => std::iter::successors(Some(row), |&row| parents[row]).any(|r| r == other),
        }
    }

    fn head(&self, row: usize, head: usize) -> Vec<f64> {
        let (dim, kv_heads) = (self.spec.kv.dim, self.spec.kv.heads);
        let kv_head = head / (self.spec.heads / kv_heads);
        let rounded = |x: f64| f64::from(f16::from_f32(x as f32).to_f32());
        let q = token(self.ids[row], self.spec.heads * dim, 1);
        let q = self.prepared(&q[head * dim..][..dim], 11, self.span.position(row));
        let mut scored = Vec::new();
        for (id, position) in self.seen(row) {
            let k = token(id, kv_heads * dim, 2);
            let k = self.prepared(&k[kv_head * dim..][..dim], 12, position);
            let score =
                q.iter().zip(k).map(|(q, k)| q * rounded(k)).sum::<f64>() * f64::from(self.spec.scale);
            let cap = |cap: f32| f64::from(cap) * (score / f64::from(cap)).tanh();
            let value = token(id, kv_heads * dim, 3)[kv_head * dim..][..dim].to_vec();
            scored.push((self.spec.softcap.map_or(score, cap), value));
        }
        let top = scored.iter().map(|(score, _)| *score).fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = scored.iter().map(|(score, _)| (score - top).exp()).sum();
        let weighted = |d: usize| {
            scored.iter().map(|(score, v)| (score - top).exp() * rounded(f64::from(v[d]))).sum::<f64>() / sum
        };
        (0..dim).map(weighted).collect()
    }

    fn rows(&self) -> Vec<f64> {
        let heads = |row| (0..self.spec.heads).flat_map(move |head| self.head(row, head));
        (0..self.ids.len()).flat_map(heads).collect()
    }
}

fn cos_len(spec: &AttentionSpec) -> usize {
    spec.rope.dims() / 2
}

/// A key that lies on the edge between two f16 may be rounded either way, so single outputs may be off by
/// what that moves a score; on average they are not.
fn assert_attention(found: &[f32], expected: &[f64], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}: elements");
    let off = |(&a, &b): (&f32, &f64)| (f64::from(a) - b).abs();
    let worst = found.iter().zip(expected).map(off).fold(0.0, |worst: f64, off| {
        assert!(!off.is_nan(), "{what}: not a number");
        worst.max(off)
    });
    let square: f64 = found.iter().zip(expected).map(off).map(|off| off * off).sum();
    let mean = (square / found.len() as f64).sqrt();
    assert!(worst < 2e-3 && mean < 5e-5, "{what}: off by {worst:e}, on average by {mean:e}");
}

fn masks() -> Vec<Mask> {
    let keep = |sink, tail| Some(Keep { sink, tail });
    vec![
        Mask::CAUSAL,
        Mask { window: Some(16), ..Mask::CAUSAL },
        Mask { window: Some(90), ..Mask::CAUSAL },
        Mask { keep: keep(4, 32), ..Mask::CAUSAL },
        Mask { causal: true, window: Some(70), keep: keep(80, 64) },
        Mask { causal: false, window: None, keep: None },
        Mask { causal: false, window: Some(20), keep: None },
        Mask { causal: false, window: None, keep: keep(0, 100) },
        Mask { causal: false, window: None, keep: keep(3, 0) },
    ]
}

fn check(backend: &dyn Backend, layer: &Layer, prefix: usize, rows: usize, tree: bool, random: &mut Random) {
    let spec = layer.spec(backend);
    let mut cache = layer.cache();
    let mut ids = |count: usize| (0..count).map(|_| random.below(500) as u32).collect::<Vec<_>>();
    let (committed, own) = (ids(prefix), ids(rows));
    for part in committed.chunks(100) {
        append(backend, &spec, part, &mut cache);
    }
    let shape = if tree { Shape::Tree(parents(rows, random)) } else { Shape::Chain };
    let found = span(backend, &spec, &own, shape.clone(), &mut cache);
    let place = Span { first_row: 0, rows, start: prefix, shape };
    let oracle = Oracle { layer, spec: &spec, committed: &committed, ids: &own, span: &place };
    assert_attention(&found, &oracle.rows(), &format!("{layer:?} {place:?}"));
}

/// A random tree, with more than one root now and then.
pub(super) fn parents(rows: usize, random: &mut Random) -> Vec<Option<usize>> {
    let parent = |row: usize, random: &mut Random| match random.below(4) {
        0 if row < 3 => None,
        1 if row > 0 => Some(random.below(row)),
        _ => row.checked_sub(1),
    };
    (0..rows).map(|row| parent(row, random)).collect()
}

/// [`Backend::append`] and [`Backend::attention`]: every mask, group size and shape of a span.
///
/// # Panics
/// When the backend breaks its contract.
pub fn attention(backend: &dyn Backend) {
    let mut random = Random(9);
    for mask in masks() {
        for (heads, kv_heads, dim) in [(6, 2, 16), (2, 2, 24), (5, 1, 64), (14, 2, 8)] {
            let layer = Layer::new(heads, kv_heads, dim, mask);
            for (prefix, rows) in [(0, 1), (0, 70), (63, 3), (150, 9)] {
                check(backend, &layer, prefix, rows, false, &mut random);
                check(backend, &layer.elaborate(), prefix, rows, false, &mut random);
                if mask.causal {
                    check(backend, &layer.elaborate(), prefix, rows.min(20), true, &mut random);
                }
            }
        }
    }
}
