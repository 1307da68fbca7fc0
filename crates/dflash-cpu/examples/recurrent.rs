//! Times recurrent layers at the sizes of Qwen3.5-9B: `cargo run --release --example recurrent [threads]`.
//!
//! The gated delta rule of its 24 linear layers for one row and for a block of 16, and going back to 8 of
//! 16 rows in all of them, beside the time that the states take to be read and written at the bandwidth of
//! the memory. Then, in the same run, the products that such a block takes in all 32 layers and the head, and
//! going back as a share of both. Weights come from memory, as they do while a model decodes.

use std::time::Instant;

use dflash_cpu::{CpuBackend, Isa};
use dflash_tensor::{
    Activation, Backend, Batch, DeltaGeometry, DeltaInputs, DeltaSpec, Format, HeadNorm, KeyHeadMap,
    LayerCache, Part, Pre, SeqCache, Shape, Tail, Tensor, Weight,
};

const LAYERS: usize = 24;
const BLOCK: usize = 16;
const HIDDEN: usize = 4096;
const WIDE: usize = 12288;
const GEOMETRY: DeltaGeometry =
    DeltaGeometry { key_heads: 16, value_heads: 32, key_dim: 128, value_dim: 128 };
const VALUES: usize = GEOMETRY.value_heads * GEOMETRY.value_dim;

/// Every weight is there this many times, so that none stays in a cache.
const COPIES: usize = 4;

fn main() {
    let threads = std::env::args().nth(1).and_then(|threads| threads.parse().ok());
    let backend = threads.map_or_else(CpuBackend::detect, |threads| CpuBackend::new(threads, Isa::detect()));
    let bandwidth = backend.read_bandwidth();
    println!("{}, reading {:.1} GB/s", backend.name(), bandwidth / 1e9);
    let replay = layers(&backend, bandwidth);
    let products = products(&backend);
    println!("products of {BLOCK} rows in 32 layers and the head: {:.1} ms", products * 1e3);
    println!(
        "going back is {:.2} % of the products and the recurrence",
        100.0 * replay.0 / (products + replay.1)
    );
}

fn tensor(backend: &CpuBackend, rows: usize, cols: usize, scale: f32) -> Tensor {
    let mut tensor = backend.tensor(rows, cols);
    let value = |i: usize| scale * (((i * 7919) % 1001) as f32 / 500.0 - 1.0);
    backend.write(&mut tensor, 0, &(0..rows * cols).map(value).collect::<Vec<_>>());
    tensor
}

fn spec(backend: &CpuBackend) -> DeltaSpec {
    let heads = GEOMETRY.value_heads;
    let mut rate = backend.tensor(1, heads);
    backend.write(&mut rate, 0, &vec![-0.1; heads]);
    DeltaSpec {
        geometry: GEOMETRY,
        filter: tensor(backend, 4, GEOMETRY.channels(), 1.0),
        rate,
        dt_bias: tensor(backend, 1, heads, 1.0),
        norm: HeadNorm { weight: tensor(backend, 1, GEOMETRY.value_dim, 1.0), eps: 1e-6 },
        key_heads: KeyHeadMap::Grouped,
    }
}

/// The linear layers of a model and the rows that go through them.
struct Layers<'a> {
    backend: &'a CpuBackend,
    spec: DeltaSpec,
    cache: SeqCache,
    inputs: [Tensor; 4],
    out: Tensor,
}

impl<'a> Layers<'a> {
    fn new(backend: &'a CpuBackend) -> Self {
        let spec = spec(backend);
        let layer = |_| LayerCache::Recurrent(backend.recurrent_state(spec.recurrent()));
        let cache = SeqCache::new((0..LAYERS).map(layer).collect());
        let widths = [GEOMETRY.channels(), VALUES, GEOMETRY.value_heads, GEOMETRY.value_heads];
        let inputs = widths.map(|cols| tensor(backend, BLOCK, cols, 2.0));
        Self { backend, spec, cache, inputs, out: backend.tensor(BLOCK, VALUES) }
    }

    /// Seconds of a pass of `rows` rows, and of accepting `accepted` of them.
    fn pass(&mut self, rows: usize, accepted: usize) -> (f64, f64) {
        let mut batch = Batch::new();
        batch.push(&vec![0; rows], self.cache.len(), Shape::Chain);
        self.inputs.iter_mut().for_each(|input| input.set_rows(rows));
        let begin = Instant::now();
        self.cache.begin_verify(rows);
        let [qkv, gate, beta, alpha] = &self.inputs;
        for layer in 0..LAYERS {
            let inputs = DeltaInputs { qkv, gate, beta, alpha };
            self.backend.gated_delta(
                &self.spec,
                layer,
                &batch,
                &mut [&mut self.cache],
                inputs,
                &mut self.out,
            );
        }
        let forward = begin.elapsed().as_secs_f64();
        let begin = Instant::now();
        self.cache.accept_chain(accepted);
        (forward, begin.elapsed().as_secs_f64())
    }

    /// Medians of [`Layers::pass`].
    fn median(&mut self, rows: usize, accepted: usize) -> (f64, f64) {
        let (forward, accept): (Vec<f64>, Vec<f64>) = (0..11).map(|_| self.pass(rows, accepted)).unzip();
        (median(forward), median(accept))
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Seconds of going back to half a block in all layers, and of the block.
fn layers(backend: &CpuBackend, bandwidth: f64) -> (f64, f64) {
    let mut layers = Layers::new(backend);
    layers.pass(BLOCK, BLOCK);
    let (one, _) = layers.median(1, 1);
    let (block, whole) = layers.median(BLOCK, BLOCK);
    let (_, replay) = layers.median(BLOCK, BLOCK / 2);
    let states = LAYERS * GEOMETRY.value_heads * GEOMETRY.key_dim * GEOMETRY.value_dim * size_of::<f32>();
    let store = layers.cache.layer(0).recurrent();
    println!("{LAYERS} linear layers, {:.1} MB of states", states as f64 / 1e6);
    println!("tape of {BLOCK} rows: {} KiB a layer", store.tape_bytes() >> 10);
    println!("states read and written at that bandwidth: {:.2} ms", 2e3 * states as f64 / bandwidth);
    println!("gated delta: one row {:.2} ms, {BLOCK} rows {:.2} ms", one * 1e3, block * 1e3);
    println!("accepting {BLOCK} of {BLOCK} rows: {:.3} ms, 8 of them: {:.2} ms", whole * 1e3, replay * 1e3);
    (replay, block)
}

/// Output features of the parts, input features, what becomes of the product, and how often a model has it.
struct Product {
    parts: &'static [usize],
    cols: usize,
    tail: Tail,
    count: usize,
}

const PRODUCTS: [Product; 7] = [
    // qkv, gate, beta and alpha of a linear layer, and its output.
    Product { parts: &[8192, 4096, 32, 32], cols: HIDDEN, tail: Tail::Store, count: LAYERS },
    Product { parts: &[HIDDEN], cols: VALUES, tail: Tail::Add, count: LAYERS },
    // Queries with gates, keys and values of an attention layer, and its output.
    Product { parts: &[8192, 1024, 1024], cols: HIDDEN, tail: Tail::Store, count: 8 },
    Product { parts: &[HIDDEN], cols: 4096, tail: Tail::Add, count: 8 },
    Product { parts: &[WIDE, WIDE], cols: HIDDEN, tail: Tail::Glu(Activation::Silu), count: 32 },
    Product { parts: &[HIDDEN], cols: WIDE, tail: Tail::Add, count: 32 },
    // The head: every row of a verified block has its choice.
    Product { parts: &[248_320], cols: HIDDEN, tail: Tail::Store, count: 1 },
];

impl Product {
    fn weight(&self, backend: &CpuBackend) -> Weight {
        let mut state = 0x2545_f491_u32;
        let mut byte = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // Bytes below 0x40 keep every scale small.
            (state >> 24) as u8 & 0x3b
        };
        let bytes = |&rows: &usize| (0..rows * Format::Q4_0.row_bytes(self.cols)).map(|_| byte()).collect();
        let elements: Vec<Vec<u8>> = self.parts.iter().map(bytes).collect();
        let parts = self.parts.iter().zip(&elements);
        let parts: Vec<Part<'_>> =
            parts.map(|(&rows, bytes)| Part::plain(Format::Q4_0, rows, self.cols, bytes)).collect();
        backend.pack(&parts).expect("whole blocks")
    }

    /// Seconds of a call with a block of rows.
    fn time(&self, backend: &CpuBackend) -> f64 {
        let weights: Vec<Weight> = (0..COPIES).map(|_| self.weight(backend)).collect();
        let x = tensor(backend, BLOCK, self.cols, 1.0);
        let gain = tensor(backend, 1, self.cols, 1.0);
        let parts = if matches!(self.tail, Tail::Glu(_)) { &self.parts[..1] } else { self.parts };
        let mut outs: Vec<Tensor> = parts.iter().map(|&cols| backend.tensor(BLOCK, cols)).collect();
        let pre = match self.tail {
            Tail::Add => Pre::None,
            _ => Pre::RmsNorm { weight: &gain, eps: 1e-6 },
        };
        let call = |weight: &Weight| {
            let begin = Instant::now();
            backend.linear(weight, &x, pre, self.tail, &mut outs.iter_mut().collect::<Vec<_>>());
            begin.elapsed().as_secs_f64()
        };
        median(weights.iter().cycle().take(3 * COPIES).map(call).collect())
    }
}

/// Seconds of the products of a block in all layers and the head.
fn products(backend: &CpuBackend) -> f64 {
    PRODUCTS.iter().map(|product| product.count as f64 * product.time(backend)).sum()
}
