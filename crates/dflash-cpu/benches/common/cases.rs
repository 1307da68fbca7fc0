//! One call of every kernel, by name.

use std::sync::Arc;

use dflash_cpu::CpuBackend;
use dflash_tensor::{
    Among, AttentionSpec, Backend, Batch, ConvInputs, ConvSpec, DeltaGeometry, DeltaInputs, DeltaSpec,
    Format, HeadNorm, KeyHeadMap, KvCache, KvGeometry, LayerCache, Mask, Pre, RecurrentGeometry, Rope,
    RopeScaling, SeqCache, Shape as Rows, Tail, Tensor,
};

use super::{Call, SMALL, Shape, WIDE, formats, tensor, weight, weights};

/// A call that can be repeated.
pub struct Case<'a> {
    /// Such as `linear/Q4_1/16`; what follows the last slash are rows.
    pub name: String,
    /// Multiply-adds of a call, or elements where there are none.
    pub work: usize,
    pub run: Box<dyn FnMut() + 'a>,
}

/// Calls `visit` with every case whose name is `wanted`; weights of one shape fill `rotation` bytes.
pub fn visit<'a>(
    backend: &'a CpuBackend,
    rotation: usize,
    wanted: impl Fn(&str) -> bool,
    mut visit: impl FnMut(Case<'a>),
) {
    let mut offer = |name: String, build: &dyn Fn() -> Built<'a>| {
        if wanted(&name) {
            let (work, run) = build();
            visit(Case { name, work, run });
        }
    };
    for format in formats() {
        for rows in [1, 4, 8, 16] {
            offer(format!("linear/{format}/{rows}"), &|| linear(backend, format, rows, rotation));
        }
    }
    for rows in [1, 16] {
        offer(format!("choose/Q8_0/{rows}"), &|| choose(backend, rows));
        for context in [512, 4096] {
            offer(format!("attention/{context}/{rows}"), &|| attention(backend, context, rows));
        }
        offer(format!("gated delta/{rows}"), &|| gated_delta(backend, rows));
        offer(format!("short conv/{rows}"), &|| short_conv(backend, rows));
        offer(format!("rms_norm/{rows}"), &|| rms_norm(backend, rows));
        offer(format!("norm and quantise/{rows}"), &|| quantise(backend, rows));
    }
}

/// Work and call of a case.
type Built<'a> = (usize, Box<dyn FnMut() + 'a>);

/// Gate and up of a small model.
fn linear(backend: &CpuBackend, format: Format, rows: usize, rotation: usize) -> Built<'_> {
    let shape = if SMALL[2].cols.is_multiple_of(format.block()) { &SMALL[2] } else { &WIDE[0] };
    let mut call = Call::new(backend, weights(backend, format, shape, rotation), shape, rows);
    (rows * shape.macs(), Box::new(move || call.run()))
}

fn choose(backend: &CpuBackend, rows: usize) -> Built<'_> {
    let shape = &SMALL[4];
    let (head, gain) = (weight(backend, Format::Q8_0, shape), tensor(backend, 1, shape.cols));
    let (x, ids) = (tensor(backend, rows, shape.cols), (0..rows).collect::<Vec<_>>());
    let (among, mut choices) = (Among::first(shape.parts[0]), Vec::new());
    let run = move || {
        choices.clear();
        let pre = Pre::RmsNorm { weight: &gain, eps: 1e-5 };
        backend.choose(&head, &x, &ids, pre, among, &mut choices).expect("finite logits");
    };
    (rows * shape.macs(), Box::new(run))
}

/// Sizes of SmolLM2-135M: nine heads of 64 on three of keys and values.
fn attention(backend: &CpuBackend, context: usize, rows: usize) -> Built<'_> {
    let (heads, kv) = (9, KvGeometry { heads: 3, dim: 64 });
    let rope = Arc::new(Rope::new(kv.dim, 10_000.0, &RopeScaling::Default, context + rows));
    let (scale, mask) = (0.125, Mask::CAUSAL);
    let spec = AttentionSpec { heads, kv, scale, softcap: None, q_norm: None, k_norm: None, rope, mask };
    let mut cache = SeqCache::new(vec![LayerCache::Kv(KvCache::new(kv, None))]);
    let [mut k, mut v] = [0, 1].map(|_| tensor(backend, context, kv.heads * kv.dim));
    let mut batch = pass(&mut cache, context);
    backend.append(&spec, 0, &batch, &mut [&mut cache], &mut k, &v);
    cache.accept_chain(context);
    [&mut k, &mut v].into_iter().for_each(|tensor| tensor.set_rows(rows));
    let (mut q, mut out) = (tensor(backend, rows, heads * kv.dim), backend.tensor(rows, heads * kv.dim));
    batch.clear();
    batch.push(&vec![0; rows], context, Rows::Chain);
    let macs = 2 * heads * kv.dim * (rows * context + rows * (rows + 1) / 2);
    let run = move || {
        cache.begin_verify(rows);
        backend.attention(&spec, 0, &batch, &mut [&mut cache], &mut q, Some((&mut k, &v)), &mut out);
        cache.accept_chain(0);
    };
    (macs, Box::new(run))
}

/// A batch of one chain, begun on the cache.
fn pass(cache: &mut SeqCache, rows: usize) -> Batch {
    let mut batch = Batch::new();
    batch.push(&vec![0; rows], cache.len(), Rows::Chain);
    cache.begin_verify(rows);
    batch
}

fn recurrent(backend: &CpuBackend, geometry: RecurrentGeometry) -> SeqCache {
    SeqCache::new(vec![LayerCache::Recurrent(backend.recurrent_state(geometry))])
}

/// Sizes of Qwen3.5-4B and 9B.
fn gated_delta(backend: &CpuBackend, rows: usize) -> Built<'_> {
    let geometry = DeltaGeometry { key_heads: 16, value_heads: 32, key_dim: 128, value_dim: 128 };
    let (heads, values) = (geometry.value_heads, geometry.value_heads * geometry.value_dim);
    let mut rate = backend.tensor(1, heads);
    backend.write(&mut rate, 0, &vec![-0.1; heads]);
    let spec = DeltaSpec {
        geometry,
        filter: tensor(backend, 4, geometry.channels()),
        rate,
        dt_bias: tensor(backend, 1, heads),
        norm: HeadNorm { weight: tensor(backend, 1, geometry.value_dim), eps: 1e-6 },
        key_heads: KeyHeadMap::Grouped,
    };
    let mut cache = recurrent(backend, spec.recurrent());
    let inputs = [geometry.channels(), values, heads, heads].map(|cols| tensor(backend, rows, cols));
    let mut out = backend.tensor(rows, values);
    // Of a row: what the state knows of the key, its update, what the query reads.
    let macs = 3 * rows * values * geometry.key_dim;
    let run = move || {
        let batch = pass(&mut cache, rows);
        let [qkv, gate, beta, alpha] = &inputs;
        let inputs = DeltaInputs { qkv, gate, beta, alpha };
        backend.gated_delta(&spec, 0, &batch, &mut [&mut cache], inputs, &mut out);
        cache.accept_chain(0);
    };
    (macs, Box::new(run))
}

/// Sizes of LFM2-1.2B.
fn short_conv(backend: &CpuBackend, rows: usize) -> Built<'_> {
    let channels = 2048;
    let spec = ConvSpec { filter: tensor(backend, 3, channels), bias: None };
    let mut cache = recurrent(backend, spec.recurrent());
    let inputs: [Tensor; 3] = [0, 1, 2].map(|_| tensor(backend, rows, channels));
    let mut out = backend.tensor(rows, channels);
    let run = move || {
        let batch = pass(&mut cache, rows);
        let [before, after, x] = &inputs;
        backend.short_conv(&spec, 0, &batch, &mut [&mut cache], ConvInputs { before, after, x }, &mut out);
        cache.accept_chain(0);
    };
    (5 * rows * channels, Box::new(run))
}

/// Columns of rows that are worked on alone.
const COLS: usize = 4096;

fn rms_norm(backend: &CpuBackend, rows: usize) -> Built<'_> {
    let (x, gain, mut out) =
        (tensor(backend, rows, COLS), tensor(backend, 1, COLS), backend.tensor(rows, COLS));
    (rows * COLS, Box::new(move || backend.rms_norm(&x, &gain, 1e-5, &mut out)))
}

/// What comes before a product, with a product that is next to nothing.
fn quantise(backend: &CpuBackend, rows: usize) -> Built<'_> {
    let shape = Shape { parts: &[8], cols: COLS, tail: Tail::Store };
    let mut call = Call::new(backend, vec![weight(backend, Format::Q4_1, &shape)], &shape, rows);
    (rows * COLS, Box::new(move || call.run()))
}
