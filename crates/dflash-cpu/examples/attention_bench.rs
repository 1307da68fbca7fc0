//! Times attention of 1, 8 and 16 rows over long contexts and compares it with its floor: the larger of
//! K/V bytes over the read bandwidth and multiply-adds over their ceiling on this machine.
//!
//! `cargo run --release -p dflash-cpu --example attention_bench [threads [context rows]]`

use std::sync::Arc;
use std::time::{Duration, Instant};

use dflash_cpu::{Arithmetic, Ceilings, CpuBackend, Isa, PerArithmetic, Work};
use dflash_tensor::{
    AttentionSpec, Backend, Batch, KvCache, KvGeometry, LayerCache, Mask, Rope, RopeScaling, SeqCache, Shape,
    Tensor,
};

/// K/V bytes that the layers of a measurement hold together: more than the caches do.
const BYTES: usize = 128 << 20;
/// Rows appended at a time while a context is filled.
const CHUNK: usize = 512;

/// How long a case is repeated.
const TIME: Duration = Duration::from_secs(1);

struct Case {
    spec: AttentionSpec,
    context: usize,
    rows: usize,
}

impl Case {
    fn new(heads: usize, kv: KvGeometry, context: usize, rows: usize) -> Self {
        let rope = Rope::new(kv.dim, 10_000.0, &RopeScaling::Default, context + rows + CHUNK);
        let scale = (kv.dim as f32).powf(-0.5);
        let (rope, mask) = (Arc::new(rope), Mask::CAUSAL);
        let spec = AttentionSpec { heads, kv, scale, softcap: None, q_norm: None, k_norm: None, rope, mask };
        Self { spec, context, rows }
    }

    /// Bytes of keys and values of a layer.
    fn bytes(&self) -> usize {
        self.context * self.spec.kv.heads * self.spec.kv.dim * 4
    }

    /// Multiply-adds of a layer.
    fn macs(&self) -> usize {
        let seen = self.rows * self.context + self.rows * (self.rows + 1) / 2;
        2 * seen * self.spec.heads * self.spec.kv.dim
    }

    /// A cache of enough layers to leave the machine's caches, filled.
    fn cache(&self, backend: &dyn Backend) -> SeqCache {
        let layers = if self.context > 0 { (BYTES / self.bytes()).clamp(1, 400) } else { 8 };
        let layer = || LayerCache::Kv(KvCache::new(self.spec.kv, None));
        let mut cache = SeqCache::new((0..layers).map(|_| layer()).collect());
        let (mut batch, mut k, v) =
            (Batch::new(), self.heads(backend, CHUNK, true), self.heads(backend, CHUNK, true));
        while cache.len() < self.context {
            batch.clear();
            batch.push(&[0; CHUNK], cache.len(), Shape::Chain);
            cache.begin_verify(CHUNK);
            (0..layers).for_each(|layer| {
                backend.append(&self.spec, layer, &batch, &mut [&mut cache], &mut k, &v);
            });
            cache.accept_chain(CHUNK);
        }
        cache
    }

    fn heads(&self, backend: &dyn Backend, rows: usize, kv: bool) -> Tensor {
        let cols = self.spec.kv.dim * if kv { self.spec.kv.heads } else { self.spec.heads };
        let mut tensor = backend.tensor(rows, cols);
        let value = |i: usize| ((i * 7919 + 13) % 1009) as f32 / 504.0 - 1.0;
        let data: Vec<f32> = (0..rows * cols).map(value).collect();
        backend.write(&mut tensor, 0, &data);
        tensor
    }

    /// Seconds of a call that one in ten undercuts: the host may be shared.
    fn seconds(&self, backend: &dyn Backend) -> f64 {
        let mut cache = self.cache(backend);
        let (mut q, mut k) = (self.heads(backend, self.rows, false), self.heads(backend, self.rows, true));
        let (v, mut out) = (self.heads(backend, self.rows, true), self.heads(backend, self.rows, false));
        let mut batch = Batch::new();
        batch.push(&vec![0; self.rows], self.context, Shape::Chain);
        let (mut times, begin) = (Vec::new(), Instant::now());
        while begin.elapsed() < TIME || times.is_empty() {
            cache.begin_verify(self.rows);
            for layer in 0..cache.layers() {
                let (caches, call) = (&mut [&mut cache], Instant::now());
                backend.attention(&self.spec, layer, &batch, caches, &mut q, Some((&mut k, &v)), &mut out);
                times.push(call.elapsed().as_secs_f64());
            }
            cache.accept_chain(0);
        }
        times.sort_by(f64::total_cmp);
        times[times.len() / 10]
    }

    fn report(&self, backend: &dyn Backend, ceilings: &Ceilings) {
        let seconds = self.seconds(backend);
        let (bytes, macs) = (self.bytes() as f64, self.macs() as f64);
        let multiply_adds =
            PerArithmetic::of(|kind| if kind == Arithmetic::F32 { self.macs() as u64 } else { 0 });
        let floor = ceilings.floor(&Work { bytes: self.bytes() as u64, multiply_adds });
        println!(
            "{:3}/{:<2} x{:<4} {:7} {:5} {:11.1} {:8.1} {:8.1} {:7.0}%",
            self.spec.heads,
            self.spec.kv.heads,
            self.spec.kv.dim,
            self.context,
            self.rows,
            seconds * 1e6,
            bytes / seconds / 1e9,
            macs / seconds / 1e9,
            floor / seconds * 100.0,
        );
    }
}

/// The cases of a model: those asked for, or the usual ones and two prefills.
fn cases(asked: &[usize]) -> Vec<(usize, usize)> {
    if let [context, rows] = *asked {
        return vec![(context, rows)];
    }
    let contexts = [512, 4096, 32_768];
    let steps = contexts.into_iter().flat_map(|context| [1, 8, 16].map(|rows| (context, rows)));
    steps.chain([(0, 512), (0, 2048)]).collect()
}

fn main() {
    let asked: Vec<usize> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let default = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = asked.first().copied().unwrap_or(default);
    let backend = CpuBackend::new(threads, Isa::detect());
    let small = (9, KvGeometry { heads: 3, dim: 64 });
    let large = (32, KvGeometry { heads: 8, dim: 128 });
    println!("{}", backend.name());
    println!("heads        context  rows    us/layer     GB/s   GMAC/s  of floor");
    for (heads, kv) in [small, large] {
        let ceilings = backend.ceilings();
        let macs = ceilings.multiply_adds[Arithmetic::F32];
        println!("ceilings: {:.1} GB/s, {:.1} GMAC/s", ceilings.bytes / 1e9, macs / 1e9);
        for (context, rows) in cases(asked.get(1..).unwrap_or_default()) {
            Case::new(heads, kv, context, rows).report(&backend, &ceilings);
        }
    }
}
