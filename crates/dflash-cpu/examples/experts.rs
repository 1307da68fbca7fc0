//! Times a mixture of experts: `cargo run --release --example experts [format] [threads]`.
//!
//! 128 experts of which a row takes 8, as in Qwen3-30B-A3B, routed at random. Per number of rows the median
//! time of a call, the bandwidth at which the weights of the experts in use are read, the multiply-adds, and
//! the time in units of a call with one row. Weights come from memory, since every call takes others.

use std::time::Instant;

use dflash_cpu::{CpuBackend, Isa};
use dflash_tensor::{Activation, AffineScale, Backend, Experts, Format, Part, PartData, Tensor, Weight};

const ROWS: [usize; 6] = [1, 2, 4, 8, 16, 512];
const EXPERTS: usize = 128;
const TOP_K: usize = 8;
const HIDDEN: usize = 2048;
const FFN: usize = 768;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let wanted = arguments.first().cloned().unwrap_or_default();
    let threads = arguments.get(1).and_then(|threads| threads.parse().ok());
    let backend = threads.map_or_else(CpuBackend::detect, |threads| CpuBackend::new(threads, Isa::detect()));
    println!("{}, reading {:.1} GB/s", backend.name(), backend.read_bandwidth() / 1e9);
    let affine = Format::Affine { bits: 4, group: 64, scale: AffineScale::Bf16 };
    for format in [Format::Q4_0, affine, Format::Q8_0, Format::Bf16] {
        if format.to_string().starts_with(&wanted) {
            time(&backend, format);
        }
    }
}

/// Numbers without a pattern.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32
    }

    fn numbers(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.next() as f32 / (1_u64 << 30) as f32 - 1.0).collect()
    }
}

/// Parts of `rows` output features each, of arbitrary but harmless bytes.
fn weight(backend: &CpuBackend, format: Format, parts: usize, rows: usize, cols: usize) -> Weight {
    let mut noise = Noise(cols as u64);
    // Bytes below 0x40 keep every float small.
    let mut bytes = |count: usize| (0..count).map(|_| noise.next() as u8 & 0x3b).collect::<Vec<u8>>();
    let elements = bytes(rows * format.row_bytes(cols));
    let scales = match format {
        Format::Affine { group, scale, .. } => bytes(rows * cols / group as usize * scale.bytes()),
        _ => Vec::new(),
    };
    let mut part = Part::plain(format, rows, cols, &elements);
    if !scales.is_empty() {
        part.data = PartData::Affine { elements: &elements, scales: &scales, biases: &scales };
    }
    backend.pack(&vec![part; parts]).expect("whole blocks")
}

fn mixture(backend: &CpuBackend, format: Format) -> Experts {
    Experts {
        gate_up: (0..EXPERTS).map(|_| weight(backend, format, 2, FFN, HIDDEN)).collect(),
        down: (0..EXPERTS).map(|_| weight(backend, format, 1, HIDDEN, FFN)).collect(),
        activation: Activation::Silu,
        top_k: TOP_K,
        renormalise: true,
        scale: None,
    }
}

/// Experts that the rows of `scores` take.
fn in_use(scores: &[f32]) -> usize {
    let mut used = [false; EXPERTS];
    for scores in scores.chunks(EXPERTS) {
        let mut order: Vec<usize> = (0..EXPERTS).collect();
        order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
        order[..TOP_K].iter().for_each(|&expert| used[expert] = true);
    }
    used.into_iter().filter(|&used| used).count()
}

fn tensor(backend: &CpuBackend, cols: usize, values: &[f32]) -> Tensor {
    let mut tensor = backend.tensor(values.len() / cols, cols);
    backend.write(&mut tensor, 0, values);
    tensor
}

fn time(backend: &CpuBackend, format: Format) {
    let experts = mixture(backend, format);
    let bytes = experts.gate_up[0].bytes() + experts.down[0].bytes();
    println!("\n{format}, {:.2} MB an expert", bytes as f64 / 1e6);
    let (mut noise, mut one) = (Noise(1), 0.0);
    for rows in ROWS {
        let x = tensor(backend, HIDDEN, &noise.numbers(rows * HIDDEN));
        let mut out = backend.tensor(rows, HIDDEN);
        let (mut times, mut used) = (Vec::new(), 0);
        let calls = (256 / rows).clamp(5, 60);
        for _ in 0..calls {
            let values = noise.numbers(rows * EXPERTS);
            used += in_use(&values);
            let scores = tensor(backend, EXPERTS, &values);
            let begin = Instant::now();
            backend.experts(&experts, &scores, &x, &mut out);
            times.push(begin.elapsed().as_secs_f64());
        }
        times.sort_by(f64::total_cmp);
        let (time, used) = (times[calls / 2], used as f64 / calls as f64);
        one = if rows == 1 { time } else { one };
        println!(
            "{rows:5} rows {used:6.1} experts {:9.1} us {:6.1} GB/s {:6.1} GMAC/s {:6.2}",
            time * 1e6,
            used * bytes as f64 / time / 1e9,
            (3 * rows * TOP_K * HIDDEN * FFN) as f64 / time / 1e9,
            time / one
        );
    }
}
