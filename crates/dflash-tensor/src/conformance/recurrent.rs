//! Recurrent layers against their formulas in f64, written from the docs of the operations.

use super::attention::{parents, token, tokens};
use super::data::{Random, all, filled, normalised, wide};
use crate::{
    Backend, Batch, ConvInputs, ConvSpec, DeltaGeometry, DeltaInputs, DeltaSpec, HeadNorm, KeyHeadMap,
    LayerCache, SeqCache, Shape, Tensor,
};

/// Sizes of a layer to try.
#[derive(Debug, Clone, Copy)]
pub(super) enum Layer {
    /// A gated delta rule.
    Delta { geometry: DeltaGeometry, kernel: usize, key_heads: KeyHeadMap },
    /// A gated short convolution.
    Conv { channels: usize, kernel: usize, bias: bool },
}

/// A layer on a backend.
pub(super) enum Spec {
    Delta(DeltaSpec),
    Conv(ConvSpec),
}

/// Value heads per key head of 1, 2 and 3, widths that no vector divides, filters of 1 to 8 rows.
pub(super) fn layers() -> Vec<Layer> {
    let delta = |(key_heads, value_heads, key_dim, value_dim), kernel, map| {
        let geometry = DeltaGeometry { key_heads, value_heads, key_dim, value_dim };
        Layer::Delta { geometry, kernel, key_heads: map }
    };
    vec![
        delta((2, 2, 8, 8), 4, KeyHeadMap::Grouped),
        delta((3, 6, 16, 24), 4, KeyHeadMap::Grouped),
        delta((3, 6, 12, 40), 3, KeyHeadMap::Tiled),
        delta((2, 6, 24, 16), 2, KeyHeadMap::Tiled),
        delta((1, 3, 20, 13), 8, KeyHeadMap::Grouped),
        delta((2, 4, 7, 33), 1, KeyHeadMap::Tiled),
        Layer::Conv { channels: 40, kernel: 3, bias: false },
        Layer::Conv { channels: 13, kernel: 5, bias: true },
        Layer::Conv { channels: 8, kernel: 1, bias: true },
    ]
}

impl Layer {
    pub(super) fn spec(&self, backend: &dyn Backend) -> Spec {
        let row = |salt, cols: usize| {
            let values = Random(salt).floats(cols);
            filled(backend, cols, &values)
        };
        match *self {
            Self::Delta { geometry, kernel, key_heads } => {
                let (channels, heads) = (geometry.channels(), geometry.value_heads);
                let rate: Vec<f32> = Random(22).floats(heads).iter().map(|x| -x.exp() / 4.0).collect();
                let norm = HeadNorm { weight: row(24, geometry.value_dim), eps: 1e-6 };
                Spec::Delta(DeltaSpec {
                    geometry,
                    filter: filled(backend, channels, &Random(21).floats(kernel * channels)),
                    rate: filled(backend, heads, &rate),
                    dt_bias: row(23, heads),
                    norm,
                    key_heads,
                })
            }
            Self::Conv { channels, kernel, bias } => Spec::Conv(ConvSpec {
                filter: filled(backend, channels, &Random(25).floats(kernel * channels)),
                bias: bias.then(|| row(26, channels)),
            }),
        }
    }

    /// Columns of the output.
    pub(super) fn cols(&self) -> usize {
        match *self {
            Self::Delta { geometry, .. } => geometry.value_heads * geometry.value_dim,
            Self::Conv { channels, .. } => channels,
        }
    }

    /// Columns of the inputs: qkv, gate, beta, alpha, or before, after, x.
    pub(super) fn inputs(&self) -> Vec<usize> {
        match *self {
            Self::Delta { geometry, .. } => {
                vec![geometry.channels(), self.cols(), geometry.value_heads, geometry.value_heads]
            }
            Self::Conv { channels, .. } => vec![channels; 3],
        }
    }
}

impl Spec {
    /// The cache of a sequence without rows.
    pub(super) fn cache(&self, backend: &dyn Backend) -> SeqCache {
        let geometry = match self {
            Self::Delta(spec) => spec.recurrent(),
            Self::Conv(spec) => spec.recurrent(),
        };
        SeqCache::new(vec![LayerCache::Recurrent(backend.recurrent_state(geometry))])
    }

    pub(super) fn apply(
        &self,
        backend: &dyn Backend,
        batch: &Batch,
        caches: &mut [&mut SeqCache],
        inputs: &[Tensor],
        out: &mut Tensor,
    ) {
        match (self, inputs) {
            (Self::Delta(spec), [qkv, gate, beta, alpha]) => {
                let inputs = DeltaInputs { qkv, gate, beta, alpha };
                backend.gated_delta(spec, 0, batch, caches, inputs, out);
            }
            (Self::Conv(spec), [before, after, x]) => {
                backend.short_conv(spec, 0, batch, caches, ConvInputs { before, after, x }, out);
            }
            _ => unreachable!("the inputs of the layer"),
        }
    }
}

/// All rows of `batch`, whose inputs are those of their ids.
pub(super) fn pass(
    backend: &dyn Backend,
    layer: &Layer,
    spec: &Spec,
    batch: &Batch,
    caches: &mut [&mut SeqCache],
) -> Vec<f32> {
    let input = |(salt, cols)| tokens(backend, batch.ids(), cols, salt);
    let inputs: Vec<Tensor> = (1..).zip(layer.inputs()).map(input).collect();
    let mut out = backend.tensor(batch.rows() + 1, layer.cols());
    spec.apply(backend, batch, caches, &inputs, &mut out);
    assert_eq!(out.rows(), batch.rows(), "rows of the output");
    all(backend, &out)
}

/// The rows before, as f64: raw rows of the convolution, and states `[value_heads][key_dim][value_dim]`.
#[derive(Clone)]
struct Oracle {
    layer: Layer,
    raw: Vec<Vec<f64>>,
    state: Vec<f64>,
}

impl Oracle {
    fn new(layer: Layer) -> Self {
        let state = match layer {
            Layer::Delta { geometry, .. } => geometry.value_heads * geometry.key_dim * geometry.value_dim,
            Layer::Conv { .. } => 0,
        };
        Self { layer, raw: Vec::new(), state: vec![0.0; state] }
    }

    /// The next row.
    fn step(&mut self, id: u32) -> Vec<f64> {
        let inputs: Vec<Vec<f64>> =
            (1..).zip(self.layer.inputs()).map(|(salt, cols)| wide(&token(id, cols, salt))).collect();
        match self.layer {
            Layer::Delta { geometry, kernel, key_heads } => self.delta(&geometry, kernel, key_heads, &inputs),
            Layer::Conv { channels, kernel, bias } => {
                let products = inputs[0].iter().zip(&inputs[2]).map(|(before, x)| before * x);
                self.raw.push(products.collect());
                let bias = if bias { wide(&Random(26).floats(channels)) } else { vec![0.0; channels] };
                let sums = self.convolved(25, kernel).into_iter().zip(bias);
                sums.zip(&inputs[1]).map(|((sum, bias), after)| after * (sum + bias)).collect()
            }
        }
    }

    fn convolved(&self, salt: u64, kernel: usize) -> Vec<f64> {
        let channels = self.raw[0].len();
        let filter = Random(salt).floats(kernel * channels);
        let mut sums = vec![0.0; channels];
        for j in 0..kernel {
            let Some(row) = (self.raw.len() + j).checked_sub(kernel) else { continue };
            for (channel, sum) in sums.iter_mut().enumerate() {
                *sum += f64::from(filter[j * channels + channel]) * self.raw[row][channel];
            }
        }
        sums
    }

    fn delta(
        &mut self,
        geometry: &DeltaGeometry,
        kernel: usize,
        map: KeyHeadMap,
        inputs: &[Vec<f64>],
    ) -> Vec<f64> {
        let DeltaGeometry { key_heads, value_heads, key_dim, value_dim } = *geometry;
        self.raw.push(inputs[0].clone());
        let c: Vec<f64> = self.convolved(21, kernel).into_iter().map(|x| x * sigmoid(x)).collect();
        let (q, rest) = c.split_at(key_heads * key_dim);
        let (k, v) = rest.split_at(key_heads * key_dim);
        let (rate, bias) = (Random(22).floats(value_heads), Random(23).floats(value_heads));
        let mut out = Vec::new();
        for head in 0..value_heads {
            let key = match map {
                KeyHeadMap::Grouped => head / (value_heads / key_heads),
                KeyHeadMap::Tiled => head % key_heads,
            };
            let root = (key_dim as f64).sqrt();
            let q: Vec<f64> = unit(&q[key * key_dim..][..key_dim]).into_iter().map(|x| x / root).collect();
            let k = unit(&k[key * key_dim..][..key_dim]);
            let decay = -f64::from(rate[head].exp() / 4.0);
            let g = (decay * (inputs[3][head] + f64::from(bias[head])).exp().ln_1p()).exp();
            let b = sigmoid(inputs[2][head]);
            let state = &mut self.state[head * key_dim * value_dim..][..key_dim * value_dim];
            let y = written(state, g, b, (&q, &k), &v[head * value_dim..][..value_dim]);
            let normal = normalised(&y, &Random(24).floats(value_dim), 1e-6);
            let gate = &inputs[1][head * value_dim..][..value_dim];
            out.extend(normal.iter().zip(gate).map(|(y, gate)| y * gate * sigmoid(*gate)));
        }
        out
    }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn unit(x: &[f64]) -> Vec<f64> {
    let root = (x.iter().map(|x| x * x).sum::<f64>() + 1e-6).sqrt();
    x.iter().map(|x| x / root).collect()
}

/// A step on the state `[key_dim][value_dim]` of one head, and what is read of it.
fn written(state: &mut [f64], g: f64, b: f64, (q, k): (&[f64], &[f64]), v: &[f64]) -> Vec<f64> {
    let read = |state: &[f64], key: &[f64], d: usize| -> f64 {
        key.iter().enumerate().map(|(i, key)| state[i * v.len() + d] * key).sum()
    };
    state.iter_mut().for_each(|s| *s *= g);
    let delta: Vec<f64> = (0..v.len()).map(|d| b * (v[d] - read(state, k, d))).collect();
    for (row, k) in state.chunks_exact_mut(v.len()).zip(k) {
        row.iter_mut().zip(&delta).for_each(|(s, delta)| *s += k * delta);
    }
    (0..v.len()).map(|d| read(state, q, d)).collect()
}

/// The norm of a head makes the error of a small number as large as that of a large one, so what counts is
/// the distance beside the size of the row.
fn assert_rows(found: &[f32], expected: &[Vec<f64>], what: &str) {
    let cols = expected.first().map_or(1, Vec::len);
    assert_eq!(found.len(), expected.len() * cols, "{what}: elements");
    for (row, (found, expected)) in found.chunks(cols).zip(expected).enumerate() {
        let size = expected.iter().fold(1e-3_f64, |size, x| size.max(x.abs()));
        for (index, (&a, b)) in found.iter().zip(expected).enumerate() {
            let off = (f64::from(a) - b).abs() / size;
            assert!(off <= 3e-5, "{what}: row {row}, element {index}: {a} is {off:e} off {b}");
        }
    }
}

/// [`Backend::gated_delta`] and [`Backend::short_conv`]: every layer of the suite, chains and trees, from an
/// empty state and from others.
///
/// # Panics
/// When the backend breaks its contract.
pub fn recurrent(backend: &dyn Backend) {
    let mut random = Random(41);
    for layer in layers() {
        let spec = layer.spec(backend);
        for (prefix, rows, tree) in
            [(0, 1, false), (1, 1, false), (0, 40, false), (2, 5, true), (30, 16, true), (0, 9, true)]
        {
            let mut cache = spec.cache(backend);
            let mut oracle = Oracle::new(layer);
            let ids = |count: usize, random: &mut Random| -> Vec<u32> {
                (0..count).map(|_| random.below(1000) as u32).collect()
            };
            let committed = ids(prefix, &mut random);
            let mut batch = Batch::new();
            batch.push(&committed, 0, Shape::Chain);
            cache.begin_prefill(prefix);
            let found = pass(backend, &layer, &spec, &batch, &mut [&mut cache]);
            cache.accept_chain(prefix);
            let expected: Vec<Vec<f64>> = committed.iter().map(|&id| oracle.step(id)).collect();
            assert_rows(&found, &expected, &format!("{layer:?}: prefix"));

            let own = ids(rows, &mut random);
            let parents = match tree {
                true => parents(rows, &mut random),
                false => (0..rows).map(|row| row.checked_sub(1)).collect(),
            };
            let (mut states, mut expected) = (Vec::<Oracle>::new(), Vec::new());
            for (&id, parent) in own.iter().zip(&parents) {
                let mut state = parent.map_or(&oracle, |parent| &states[parent]).clone();
                expected.push(state.step(id));
                states.push(state);
            }
            batch.clear();
            batch.push(&own, prefix, if tree { Shape::Tree(parents) } else { Shape::Chain });
            cache.begin_verify(rows);
            let found = pass(backend, &layer, &spec, &batch, &mut [&mut cache]);
            assert_rows(&found, &expected, &format!("{layer:?}: {rows} rows after {prefix}, tree {tree}"));
        }
    }
}
