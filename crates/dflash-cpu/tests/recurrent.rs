//! Recurrent layers: whatever the threads and the instruction set, the same bits; and the size of a tape.

use dflash_cpu::{CpuBackend, Isa};
use dflash_tensor::{
    Backend, Batch, ConvInputs, ConvSpec, DeltaGeometry, DeltaInputs, DeltaSpec, HeadNorm, KeyHeadMap,
    LayerCache, RecurrentGeometry, SeqCache, Shape, Tensor,
};

/// A small deterministic source of numbers.
struct Noise(u64);

impl Noise {
    /// In -1..1.
    fn number(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as f32 / (1_u64 << 30) as f32 - 1.0
    }

    fn tensor(&mut self, backend: &CpuBackend, rows: usize, cols: usize) -> Tensor {
        let mut tensor = backend.tensor(rows, cols);
        let values: Vec<f32> = (0..rows * cols).map(|_| self.number()).collect();
        backend.write(&mut tensor, 0, &values);
        tensor
    }
}

const SHAPES: [(usize, usize, usize, usize); 4] =
    [(2, 2, 8, 8), (3, 9, 16, 24), (4, 8, 64, 128), (1, 3, 20, 33)];

fn geometry((key_heads, value_heads, key_dim, value_dim): (usize, usize, usize, usize)) -> DeltaGeometry {
    DeltaGeometry { key_heads, value_heads, key_dim, value_dim }
}

fn delta(backend: &CpuBackend, geometry: DeltaGeometry, noise: &mut Noise) -> DeltaSpec {
    let mut rate = backend.tensor(1, geometry.value_heads);
    let rates: Vec<f32> = (0..geometry.value_heads).map(|_| -0.5 * noise.number().abs()).collect();
    backend.write(&mut rate, 0, &rates);
    DeltaSpec {
        geometry,
        filter: noise.tensor(backend, 4, geometry.channels()),
        rate,
        dt_bias: noise.tensor(backend, 1, geometry.value_heads),
        norm: HeadNorm { weight: noise.tensor(backend, 1, geometry.value_dim), eps: 1e-6 },
        key_heads: KeyHeadMap::Tiled,
    }
}

fn cache(backend: &CpuBackend, geometry: RecurrentGeometry) -> SeqCache {
    SeqCache::new(vec![LayerCache::Recurrent(backend.recurrent_state(geometry))])
}

fn bits(backend: &CpuBackend, tensor: &Tensor) -> Vec<u32> {
    (0..tensor.rows()).flat_map(|row| backend.read(tensor, row)).map(f32::to_bits).collect()
}

/// Passes of rows of which some are accepted: chain and rows accepted, or a tree and a path.
fn history(cache: &mut SeqCache, mut pass: impl FnMut(&Batch, &mut SeqCache) -> Vec<u32>) -> Vec<u32> {
    let parents = vec![None, Some(0), Some(0), Some(2), Some(1), None, Some(5)];
    let mut found = Vec::new();
    for (rows, accepted) in [(2, 2), (16, 5), (1, 1), (16, 16), (7, 0), (3, 1), (1, 1)] {
        let mut batch = Batch::new();
        let tree = rows == 7;
        let shape = if tree { Shape::Tree(parents.clone()) } else { Shape::Chain };
        batch.push(&vec![0; rows], cache.len(), shape);
        cache.begin_verify(rows);
        found.extend(pass(&batch, cache));
        match tree {
            true => cache.accept_path(&parents, &[0, 2, 3]),
            false => cache.accept_chain(accepted),
        }
    }
    found
}

fn delta_history(backend: &CpuBackend, geometry: DeltaGeometry) -> Vec<u32> {
    let mut noise = Noise(7);
    let spec = delta(backend, geometry, &mut noise);
    let values = geometry.value_heads * geometry.value_dim;
    history(&mut cache(backend, spec.recurrent()), |batch, cache| {
        let widths = [geometry.channels(), values, geometry.value_heads, geometry.value_heads];
        let [qkv, gate, beta, alpha] = widths.map(|cols| noise.tensor(backend, batch.rows(), cols));
        let inputs = DeltaInputs { qkv: &qkv, gate: &gate, beta: &beta, alpha: &alpha };
        let mut out = backend.tensor(batch.rows(), values);
        backend.gated_delta(&spec, 0, batch, &mut [cache], inputs, &mut out);
        bits(backend, &out)
    })
}

fn conv_history(backend: &CpuBackend, kernel: usize, channels: usize) -> Vec<u32> {
    let mut noise = Noise(8);
    let filter = noise.tensor(backend, kernel, channels);
    let spec = ConvSpec { filter, bias: Some(noise.tensor(backend, 1, channels)) };
    history(&mut cache(backend, spec.recurrent()), |batch, cache| {
        let [before, after, x] = [0; 3].map(|_| noise.tensor(backend, batch.rows(), channels));
        let inputs = ConvInputs { before: &before, after: &after, x: &x };
        let mut out = backend.tensor(batch.rows(), channels);
        backend.short_conv(&spec, 0, batch, &mut [cache], inputs, &mut out);
        bits(backend, &out)
    })
}

/// All that is compared between two backends.
fn all(backend: &CpuBackend) -> Vec<Vec<u32>> {
    let deltas = SHAPES.into_iter().map(|shape| delta_history(backend, geometry(shape)));
    let convs = [(3, 2048), (4, 13), (1, 40)].into_iter();
    deltas.chain(convs.map(|(kernel, channels)| conv_history(backend, kernel, channels))).collect()
}

#[test]
fn threads_change_nothing() {
    let alone = all(&CpuBackend::new(1, Isa::detect()));
    for threads in [2, 3, 7] {
        assert!(all(&CpuBackend::new(threads, Isa::detect())) == alone, "{threads} threads");
    }
}

#[test]
fn instruction_sets_give_the_same_bits() {
    let scalar = all(&CpuBackend::new(1, Isa::Scalar));
    Isa::available().for_each(|isa| assert!(all(&CpuBackend::new(1, isa)) == scalar, "{}", isa.name()));
}

/// Sixteen rows of a layer of a model of nine billion weights.
#[test]
fn a_tape_is_small() {
    let (backend, geometry, rows) = (CpuBackend::detect(), geometry((16, 32, 128, 128)), 16);
    let mut noise = Noise(9);
    let spec = delta(&backend, geometry, &mut noise);
    let widths = [geometry.channels(), 4096, 32, 32];
    let [qkv, gate, beta, alpha] = widths.map(|cols| noise.tensor(&backend, rows, cols));
    let mut cache = cache(&backend, spec.recurrent());
    assert_eq!(cache.layer(0).recurrent().tape_bytes(), 0);
    let mut batch = Batch::new();
    batch.push(&[0; 16], 0, Shape::Chain);
    cache.begin_verify(rows);
    let inputs = DeltaInputs { qkv: &qkv, gate: &gate, beta: &beta, alpha: &alpha };
    let mut out = backend.tensor(rows, 4096);
    backend.gated_delta(&spec, 0, &batch, &mut [&mut cache], inputs, &mut out);
    let store = cache.layer(0).recurrent();
    assert_eq!(store.tape_bytes(), rows * 4 * (8192 + 16 * 128 + 32 + 32 * 128));
    assert!(store.tape_bytes() < 1 << 20, "{} bytes", store.tape_bytes());
    // Two states of two million bytes, and little else.
    assert!(store.bytes() < (5 << 20) + store.tape_bytes(), "{} bytes", store.bytes());
}

#[test]
#[should_panic(expected = "announced as a whole")]
fn a_part_of_a_prompt_is_not_accepted() {
    let backend = CpuBackend::new(1, Isa::Scalar);
    let mut noise = Noise(10);
    let spec = ConvSpec { filter: noise.tensor(&backend, 3, 8), bias: None };
    let mut cache = cache(&backend, spec.recurrent());
    let [before, after, x] = [0; 3].map(|_| noise.tensor(&backend, 4, 8));
    let mut batch = Batch::new();
    batch.push(&[0; 4], 0, Shape::Chain);
    cache.begin_prefill(4);
    let inputs = ConvInputs { before: &before, after: &after, x: &x };
    let mut out = backend.tensor(4, 8);
    backend.short_conv(&spec, 0, &batch, &mut [&mut cache], inputs, &mut out);
    cache.accept_chain(2);
}
