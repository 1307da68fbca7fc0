//! What operations have read and multiplied, counted as they run: the work of a pass is the difference of two
//! counts, whatever the family, the draft, the experts that were picked or the window of a layer.

use std::ops::{Index, Sub};
use std::sync::atomic::{AtomicU64, Ordering};

use dflash_tensor::{RecurrentGeometry, Weight};

use crate::pack::{Kind, Packed, PackedPart};

/// The instructions that a multiply-add is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arithmetic {
    /// Fused multiply-adds of floats: weights of floats, attention, recurrence.
    F32,
    /// Products of quantised weights of up to four bits.
    Int4,
    /// Products of quantised weights of five and six bits.
    Int6,
    /// Products of quantised weights of eight bits.
    Int8,
}

impl Arithmetic {
    /// Every one.
    pub const ALL: [Self; 4] = [Self::F32, Self::Int4, Self::Int6, Self::Int8];

    /// Name for people.
    pub fn name(self) -> &'static str {
        ["f32", "int4", "int6", "int8"][self as usize]
    }

    /// That of a packed matrix.
    fn of(kind: Kind) -> Self {
        match kind.bits() {
            _ if !kind.is_quantized() => Self::F32,
            ..=4 => Self::Int4,
            5..=6 => Self::Int6,
            _ => Self::Int8,
        }
    }
}

/// A number for each arithmetic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PerArithmetic<T>(pub(crate) [T; 4]);

impl<T> PerArithmetic<T> {
    /// From `number` of each.
    pub fn of(number: impl FnMut(Arithmetic) -> T) -> Self {
        Self(Arithmetic::ALL.map(number))
    }
}

impl<T> Index<Arithmetic> for PerArithmetic<T> {
    type Output = T;

    fn index(&self, arithmetic: Arithmetic) -> &T {
        &self.0[arithmetic as usize]
    }
}

/// Work of a backend since it was made; a pass did the difference of the counts after and before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Bytes of weights, keys, values and recurrent states, each counted once for every call that reads them.
    pub bytes: u64,
    /// Multiply-adds of products, attention and recurrence. A multiplication alone counts as one.
    pub multiply_adds: PerArithmetic<u64>,
}

impl Sub for Work {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        let since = |arithmetic| self.multiply_adds[arithmetic] - earlier.multiply_adds[arithmetic];
        Self { bytes: self.bytes - earlier.bytes, multiply_adds: PerArithmetic::of(since) }
    }
}

/// Counts work: a few relaxed additions per operation.
#[derive(Default)]
pub(crate) struct Meter {
    bytes: AtomicU64,
    multiply_adds: [AtomicU64; 4],
}

impl Meter {
    /// Counts so far.
    pub(crate) fn work(&self) -> Work {
        let count = |arithmetic: Arithmetic| self.multiply_adds[arithmetic as usize].load(Ordering::Relaxed);
        Work { bytes: self.bytes.load(Ordering::Relaxed), multiply_adds: PerArithmetic::of(count) }
    }

    /// Counts some bytes read and multiply-adds made.
    pub(crate) fn add(&self, bytes: usize, arithmetic: Arithmetic, multiply_adds: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.multiply_adds[arithmetic as usize].fetch_add(multiply_adds as u64, Ordering::Relaxed);
    }

    /// Counts a product of `rows` rows with the first `outputs` outputs of a part.
    pub(crate) fn product(&self, part: &PackedPart, outputs: usize, rows: usize) {
        if rows > 0 {
            let multiply_adds = rows * outputs * part.cols;
            self.add(part.read_bytes(outputs), Arithmetic::of(part.kind), multiply_adds);
        }
    }

    /// Counts a product of `rows` rows with all parts of a weight.
    pub(crate) fn products(&self, weight: &Weight, rows: usize) {
        Packed::of(weight).parts.iter().for_each(|part| self.product(part, part.rows, rows));
    }

    /// Counts a recurrent layer: states of `spans` sequences, filters and steps of `rows` rows. A step takes an
    /// element of a state four times: what the key finds, the decay, the write, what the query reads.
    pub(crate) fn recurrence(&self, geometry: &RecurrentGeometry, spans: usize, rows: usize) {
        let state = geometry.delta.map_or(0, |delta| delta.value_heads * delta.key_dim * delta.value_dim);
        let conv = geometry.conv;
        let bytes = (state + (conv.kernel - 1) * conv.channels) * size_of::<f32>();
        self.add(spans * bytes, Arithmetic::F32, rows * (conv.kernel * conv.channels + 4 * state));
    }
}

#[cfg(test)]
mod tests {
    use dflash_tensor::{
        Activation, Among, AttentionSpec, Backend, Batch, ConvGeometry, DeltaGeometry, Experts, Format,
        KvCache, KvGeometry, LayerCache, Mask, Part, Pre, Rope, RopeScaling, SeqCache, Shape, Tail,
    };
    use std::sync::Arc;

    use super::*;
    use crate::{CpuBackend, Isa};

    fn backend() -> CpuBackend {
        CpuBackend::new(2, Isa::detect())
    }

    /// A weight of zeros in these formats, `[rows, cols]` each.
    fn weight(backend: &CpuBackend, formats: &[Format], rows: usize, cols: usize) -> Weight {
        let bytes: Vec<Vec<u8>> =
            formats.iter().map(|format| vec![0; rows * format.row_bytes(cols)]).collect();
        let parts = formats.iter().zip(&bytes);
        let parts: Vec<Part<'_>> =
            parts.map(|(&format, bytes)| Part::plain(format, rows, cols, bytes)).collect();
        backend.pack(&parts).unwrap()
    }

    fn done(backend: &CpuBackend, operation: impl FnOnce()) -> (u64, [u64; 4]) {
        let before = backend.work();
        operation();
        let work = backend.work() - before;
        (work.bytes, work.multiply_adds.0)
    }

    #[test]
    fn a_product_reads_its_weight_once_and_multiplies_every_row() {
        let backend = backend();
        for (format, bytes, kind) in [
            (Format::F32, 4.0, 0),
            (Format::Bf16, 2.0, 0),
            (Format::Q4_0, 18.0 / 32.0, 1),
            (Format::Q4_1, 20.0 / 32.0, 1),
            (Format::Q5_0, 22.0 / 32.0, 2),
            (Format::Q8_0, 34.0 / 32.0, 3),
        ] {
            let weight = weight(&backend, &[format], 48, 64);
            let x = backend.tensor(3, 64);
            let mut out = backend.tensor(3, 48);
            let found =
                done(&backend, || backend.linear(&weight, &x, Pre::None, Tail::Store, &mut [&mut out]));
            let mut multiply_adds = [0; 4];
            multiply_adds[kind] = 3 * 48 * 64;
            assert_eq!(found, ((48.0 * 64.0 * bytes) as u64, multiply_adds), "{format:?}");
            let mut logits = backend.tensor(1, 48);
            let found = done(&backend, || backend.logits(&weight, &x, &[1], Pre::None, &mut logits));
            multiply_adds[kind] = 48 * 64;
            assert_eq!(found, ((48.0 * 64.0 * bytes) as u64, multiply_adds), "{format:?}");
        }
    }

    #[test]
    fn parts_are_counted_by_their_own_formats_and_no_rows_are_no_work() {
        let backend = backend();
        let weight = weight(&backend, &[Format::F32, Format::Q8_0], 16, 32);
        let (mut a, mut b) = (backend.tensor(2, 16), backend.tensor(2, 16));
        let mut run = |rows| {
            let x = backend.tensor(rows, 32);
            done(&backend, || backend.linear(&weight, &x, Pre::None, Tail::Store, &mut [&mut a, &mut b]))
        };
        assert_eq!(run(2), (16 * 32 * 4 + 16 * 34, [2 * 16 * 32, 0, 0, 2 * 16 * 32]));
        assert_eq!(run(0), (0, [0; 4]));
    }

    #[test]
    fn a_choice_reads_the_vocabulary_and_not_its_padding() {
        let backend = backend();
        let weight = weight(&backend, &[Format::Q4_0], 64, 32);
        let (x, mut chosen) = (backend.tensor(4, 32), Vec::new());
        let found = done(&backend, || {
            backend.choose(&weight, &x, &[0, 3], Pre::None, Among::first(33), &mut chosen).unwrap();
        });
        assert_eq!(found, (48 * 18, [0, 2 * 33 * 32, 0, 0]), "whole groups of sixteen are read");
    }

    #[test]
    fn an_expert_is_read_once_for_all_its_rows() {
        let backend = backend();
        let pack = |formats: &[Format], rows, cols| weight(&backend, formats, rows, cols);
        let experts = Experts {
            gate_up: (0..3).map(|_| pack(&[Format::Q4_0, Format::Q4_0], 32, 64)).collect(),
            down: (0..3).map(|_| pack(&[Format::Q8_0], 64, 32)).collect(),
            activation: Activation::Silu,
            top_k: 1,
            renormalise: false,
            scale: None,
        };
        // Two rows take the first expert, one the last.
        let mut scores = backend.tensor(3, 3);
        backend.write(&mut scores, 0, &[9.0, 0.0, 0.0, 0.0, 0.0, 9.0, 9.0, 0.0, 0.0]);
        let (x, mut out) = (backend.tensor(3, 64), backend.tensor(3, 64));
        let found = done(&backend, || backend.experts(&experts, &scores, &x, &mut out));
        let bytes = 2 * (2 * 32 * 2 * 18 + 64 * 34);
        assert_eq!(found, (bytes, [0, 3 * 2 * 32 * 64, 0, 3 * 64 * 32]));
    }

    #[test]
    fn attention_reads_visible_keys_once_and_multiplies_them_for_every_row() {
        let (backend, kv) = (backend(), KvGeometry { heads: 2, dim: 16 });
        let rope = Arc::new(Rope::new(kv.dim, 10_000.0, &RopeScaling::Default, 512));
        for (window, committed_seen, seen) in [(None, 100, 101 + 102 + 103), (Some(10), 9, 3 * 10)] {
            let mask = Mask { window, ..Mask::CAUSAL };
            let spec = AttentionSpec {
                heads: 4,
                kv,
                scale: 0.25,
                softcap: None,
                q_norm: None,
                k_norm: None,
                rope: Arc::clone(&rope),
                mask,
            };
            let mut cache = SeqCache::new(vec![LayerCache::Kv(KvCache::new(kv, None))]);
            let mut attend = |rows: usize| {
                let mut batch = Batch::new();
                batch.push(&vec![0; rows], cache.len(), Shape::Chain);
                let (mut q, mut k) = (backend.tensor(rows, 64), backend.tensor(rows, 32));
                let (v, mut out) = (backend.tensor(rows, 32), backend.tensor(rows, 64));
                cache.begin_verify(rows);
                let found = done(&backend, || {
                    let caches = &mut [&mut cache];
                    backend.attention(&spec, 0, &batch, caches, &mut q, Some((&mut k, &v)), &mut out);
                });
                cache.accept_chain(rows);
                found
            };
            attend(100);
            let keys = committed_seen + 3;
            assert_eq!(attend(3), (keys * 2 * 16 * 2 * 2, [2 * seen * 4 * 16, 0, 0, 0]), "{window:?}");
        }
    }

    #[test]
    fn a_recurrent_layer_reads_its_states_and_takes_an_element_four_times_a_row() {
        let meter = Meter::default();
        let delta = DeltaGeometry { key_heads: 2, value_heads: 4, key_dim: 8, value_dim: 16 };
        let conv = ConvGeometry { channels: delta.channels(), kernel: 4 };
        meter.recurrence(&RecurrentGeometry { conv, delta: Some(delta) }, 1, 5);
        let (state, channels) = (4 * 8 * 16, 2 * 2 * 8 + 4 * 16);
        let work = meter.work();
        assert_eq!(work.bytes, 4 * (state + 3 * channels));
        assert_eq!(work.multiply_adds.0, [5 * (4 * channels + 4 * state), 0, 0, 0]);
        meter.recurrence(&RecurrentGeometry { conv, delta: None }, 2, 2);
        let work = meter.work() - work;
        assert_eq!((work.bytes, work.multiply_adds.0[0]), (2 * 4 * 3 * channels, 2 * 4 * channels));
    }
}
