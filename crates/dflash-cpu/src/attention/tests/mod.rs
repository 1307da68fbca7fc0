//! The laws of attention, on rows whose contents follow from their ids.

mod accuracy;
mod laws;
mod poison;

use std::sync::Arc;

use dflash_tensor::{
    AttentionSpec, Batch, HeadNorm, Keep, KvCache, KvGeometry, LayerCache, Mask, Rope, RopeScaling, SeqCache,
    Shape,
};

use crate::{CpuBackend, Isa, attention, host};

/// A row's heads as bits.
type Bits = Vec<u32>;

/// A small generator of test data.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let x = self.0 ^ (self.0 >> 29);
        x.wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 17
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// Roughly normal.
    fn normal(&mut self) -> f32 {
        let uniform = |x: u64| (x % 65_536) as f32 / 32_768.0 - 1.0;
        uniform(self.next()) + uniform(self.next()) + uniform(self.next())
    }

    fn ids(&mut self, count: usize) -> Vec<u32> {
        (0..count).map(|_| self.below(1000) as u32).collect()
    }

    /// Parents of a tree: chains with branches, sometimes several roots.
    fn tree(&mut self, rows: usize) -> Vec<Option<usize>> {
        (0..rows)
            .map(|row| match self.below(4) {
                0 if row < 3 => None,
                1 => row.checked_sub(1 + self.below(row.max(1))),
                _ => row.checked_sub(1),
            })
            .collect()
    }
}

/// The id of a row full of NaN.
const BROKEN: u32 = u32::MAX;

/// The row that token `id` brings, whatever its position.
fn row(id: u32, cols: usize, salt: u64) -> Vec<f32> {
    if id == BROKEN {
        return vec![f32::NAN; cols];
    }
    let mut random = Random(u64::from(id) * 7919 + salt);
    random.next();
    (0..cols).map(|_| random.normal()).collect()
}

fn spec(heads: usize, kv_heads: usize, dim: usize, mask: Mask) -> AttentionSpec {
    AttentionSpec {
        heads,
        kv: KvGeometry { heads: kv_heads, dim },
        scale: (dim as f32).powf(-0.5),
        softcap: None,
        q_norm: None,
        k_norm: None,
        rope: Arc::new(Rope::new(dim, 10_000.0, &RopeScaling::Default, 4096)),
        mask,
    }
}

fn head_norm(dim: usize, salt: u64) -> HeadNorm {
    let mut weight = host::tensor(1, dim);
    let gains = row(1, dim, salt).into_iter().map(|x| 1.0 + 0.2 * x);
    host::rows_mut(&mut weight).iter_mut().zip(gains).for_each(|(w, gain)| *w = gain);
    HeadNorm { weight, eps: 1e-5 }
}

/// Norms, half a rotary embedding and a soft cap.
fn elaborate(mut spec: AttentionSpec) -> AttentionSpec {
    let dim = spec.kv.dim;
    spec.rope = Arc::new(Rope::new(dim / 4 * 2, 500.0, &RopeScaling::Linear { factor: 2.0 }, 4096));
    (spec.q_norm, spec.k_norm) = (Some(head_norm(dim, 5)), Some(head_norm(dim, 6)));
    spec.softcap = Some(2.5);
    spec
}

fn cache(spec: &AttentionSpec) -> SeqCache {
    let window = spec.mask.window.filter(|_| spec.mask.keep.is_none());
    let keep = spec.mask.keep.or(window.map(|tail| Keep { sink: 0, tail }));
    SeqCache::new(vec![LayerCache::Kv(KvCache::new(spec.kv, keep))])
}

/// Attends with the rows of `batch`; bits of all output rows.
fn step(
    backend: &CpuBackend,
    spec: &AttentionSpec,
    batch: &Batch,
    caches: &mut [&mut SeqCache],
) -> Vec<Bits> {
    let tensor = |heads: usize, salt: u64| {
        let cols = heads * spec.kv.dim;
        let mut tensor = host::tensor(batch.rows(), cols);
        let rows = batch.ids().iter().flat_map(|&id| row(id, cols, salt));
        host::rows_mut(&mut tensor).iter_mut().zip(rows).for_each(|(x, value)| *x = value);
        tensor
    };
    let (mut q, mut k) = (tensor(spec.heads, 1), tensor(spec.kv.heads, 2));
    let (v, mut out) = (tensor(spec.kv.heads, 3), tensor(spec.heads, 4));
    attention::attend(backend, spec, 0, batch, caches, &mut q, Some((&mut k, &v)), &mut out);
    let bits = |row: &[f32]| row.iter().map(|x| x.to_bits()).collect();
    host::rows(&out).chunks(spec.heads * spec.kv.dim).map(bits).collect()
}

/// One span through the cache without settling it.
fn span(
    backend: &CpuBackend,
    spec: &AttentionSpec,
    ids: &[u32],
    shape: Shape,
    cache: &mut SeqCache,
) -> Vec<Bits> {
    let mut batch = Batch::new();
    batch.push(ids, cache.len(), shape);
    cache.begin_verify(ids.len());
    step(backend, spec, &batch, &mut [cache])
}

/// A chain through the cache, all of it accepted.
fn chain(backend: &CpuBackend, spec: &AttentionSpec, ids: &[u32], cache: &mut SeqCache) -> Vec<Bits> {
    let out = span(backend, spec, ids, Shape::Chain, cache);
    cache.accept_chain(ids.len());
    out
}

/// `ids` from an empty cache, in calls of random length up to `longest`.
fn in_calls(
    backend: &CpuBackend,
    spec: &AttentionSpec,
    ids: &[u32],
    longest: usize,
    random: &mut Random,
) -> Vec<Bits> {
    let (mut cache, mut out, mut done) = (cache(spec), Vec::new(), 0);
    while done < ids.len() {
        let count = (1 + random.below(longest)).min(ids.len() - done);
        out.extend(chain(backend, spec, &ids[done..done + count], &mut cache));
        done += count;
    }
    out
}

fn backend(threads: usize) -> CpuBackend {
    CpuBackend::new(threads, Isa::detect())
}

fn window(window: usize) -> Mask {
    Mask { window: Some(window), ..Mask::CAUSAL }
}
