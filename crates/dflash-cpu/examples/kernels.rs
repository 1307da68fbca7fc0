//! Times the linear kernels: `cargo run --release --example kernels [format] [threads] [avx2]`, with a format such
//! as `Q4_K` or `"MLX 6-bit"`, and with the kernels that are named, else the best.
//!
//! Per shape and format the median time of a call with 1 to 128 rows, as bandwidth, multiply-adds and in
//! units of the call with one row; then a whole small model. Weights are rotated so that they come from
//! memory, as they do while a model decodes.

use std::time::Instant;

use dflash_cpu::{CpuBackend, Isa};
use dflash_tensor::{
    Activation, AffineScale, Among, Backend, Format, Part, PartData, Pre, Tail, Tensor, Weight,
};

const ROWS: [usize; 8] = [1, 2, 3, 4, 8, 12, 16, 128];

/// Weights of one shape are repeated until they fill this many bytes.
const ROTATION: usize = 96 << 20;

/// Output features of the parts, input features, and what becomes of the product.
#[derive(Clone, Copy)]
struct Shape {
    parts: &'static [usize],
    cols: usize,
    tail: Tail,
}

const SHAPES: [Shape; 5] = [
    Shape { parts: &[576, 192, 192], cols: 576, tail: Tail::Store },
    Shape { parts: &[576], cols: 576, tail: Tail::Add },
    Shape { parts: &[1536, 1536], cols: 576, tail: Tail::Glu(Activation::Silu) },
    Shape { parts: &[576], cols: 1536, tail: Tail::Add },
    Shape { parts: &[49152], cols: 576, tail: Tail::Store },
];

/// Much the same with inputs in whole groups of 128 and super-blocks of 256.
const WIDE: [Shape; 3] = [
    Shape { parts: &[1536, 1536], cols: 512, tail: Tail::Glu(Activation::Silu) },
    Shape { parts: &[576], cols: 1536, tail: Tail::Add },
    Shape { parts: &[49152], cols: 512, tail: Tail::Store },
];

fn formats() -> Vec<Format> {
    let affine = |bits, group| Format::Affine { bits, group, scale: AffineScale::Bf16 };
    let blocks = [Format::Q4_1, Format::Q4_0, Format::Q5_1, Format::Q5_0, Format::Q8_0];
    let super_blocks = [Format::Q2K, Format::Q3K, Format::Q4K, Format::Q5K, Format::Q6K];
    let groups = [affine(4, 32), affine(4, 128)];
    let widths = [2, 3, 4, 5, 6, 8].map(|bits| affine(bits, 64));
    let floats = [Format::Bf16, Format::F16, Format::F32];
    [&blocks[..], &super_blocks, &groups, &widths, &floats].concat()
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let wanted = arguments.first().cloned().unwrap_or_default();
    let threads = arguments.get(1).and_then(|threads| threads.parse().ok());
    let isa = std::env::args().nth(3).and_then(|name| Isa::available().find(|isa| isa.name() == name));
    let isa = isa.unwrap_or_else(Isa::detect);
    let backend = threads.map_or_else(CpuBackend::detect, |threads| CpuBackend::new(threads, isa));
    println!("{}, reading {:.1} GB/s", backend.name(), backend.read_bandwidth() / 1e9);
    if wanted == "model" || wanted.is_empty() {
        model(&backend);
    }
    for format in formats().into_iter().filter(|format| format.to_string().starts_with(&wanted)) {
        let shapes = if SHAPES[0].cols.is_multiple_of(format.block()) { &SHAPES[..] } else { &WIDE };
        shapes.iter().for_each(|shape| kernel(&backend, format, shape));
    }
}

/// A matrix of arbitrary but harmless bytes.
struct Matrix {
    format: Format,
    rows: usize,
    cols: usize,
    elements: Vec<u8>,
    scales: Vec<u8>,
}

impl Matrix {
    fn new(format: Format, rows: usize, cols: usize) -> Self {
        let mut state = 0x2545_f491_u32;
        let mut byte = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // Bytes below 0x40 keep every float small.
            (state >> 24) as u8 & 0x3b
        };
        let elements = (0..rows * format.row_bytes(cols)).map(|_| byte()).collect();
        let scales = match format {
            Format::Affine { group, scale, .. } => rows * cols / group as usize * scale.bytes(),
            _ => 0,
        };
        Self { format, rows, cols, elements, scales: (0..scales).map(|_| byte()).collect() }
    }

    fn part(&self) -> Part<'_> {
        let mut part = Part::plain(self.format, self.rows, self.cols, &self.elements);
        if matches!(self.format, Format::Affine { .. }) {
            let (elements, scales) = (&self.elements[..], &self.scales[..]);
            part.data = PartData::Affine { elements, scales, biases: scales };
        }
        part
    }
}

fn weight(backend: &CpuBackend, format: Format, shape: &Shape) -> Weight {
    let matrices: Vec<Matrix> =
        shape.parts.iter().map(|&rows| Matrix::new(format, rows, shape.cols)).collect();
    let parts: Vec<Part<'_>> = matrices.iter().map(Matrix::part).collect();
    backend.pack(&parts).expect("whole blocks")
}

fn tensor(backend: &CpuBackend, rows: usize, cols: usize) -> Tensor {
    let mut tensor = backend.tensor(rows, cols);
    let values: Vec<f32> = (0..rows * cols).map(|i| ((i * 7919) % 1001) as f32 / 500.0 - 1.0).collect();
    backend.write(&mut tensor, 0, &values);
    tensor
}

/// Seconds of the median of some calls.
fn median(mut call: impl FnMut()) -> f64 {
    call();
    let begin = Instant::now();
    let mut times = Vec::new();
    while times.len() < 9 || begin.elapsed().as_secs_f64() < 0.15 && times.len() < 2000 {
        let begin = Instant::now();
        call();
        times.push(begin.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// One operation on rotating weights.
struct Call<'a> {
    backend: &'a CpuBackend,
    weights: Vec<Weight>,
    next: usize,
    gain: Tensor,
    x: Tensor,
    tail: Tail,
    outs: Vec<Tensor>,
}

impl<'a> Call<'a> {
    fn new(backend: &'a CpuBackend, weights: Vec<Weight>, shape: &Shape, rows: usize) -> Self {
        let parts = if matches!(shape.tail, Tail::Glu(_)) { &shape.parts[..1] } else { shape.parts };
        Self {
            backend,
            weights,
            next: 0,
            gain: tensor(backend, 1, shape.cols),
            x: tensor(backend, rows, shape.cols),
            tail: shape.tail,
            outs: parts.iter().map(|&part| tensor(backend, rows, part)).collect(),
        }
    }

    fn run(&mut self) {
        let mut outs = self.outs.iter_mut().collect::<Vec<_>>();
        let pre = match self.tail {
            Tail::Add => Pre::None,
            _ => Pre::RmsNorm { weight: &self.gain, eps: 1e-5 },
        };
        self.backend.linear(&self.weights[self.next], &self.x, pre, self.tail, &mut outs);
        self.next = (self.next + 1) % self.weights.len();
    }
}

fn kernel(backend: &CpuBackend, format: Format, shape: &Shape) {
    let first = weight(backend, format, shape);
    let bytes = first.bytes();
    let mut weights = vec![first];
    while weights.len() * bytes < ROTATION {
        weights.push(weight(backend, format, shape));
    }
    let macs = shape.parts.iter().sum::<usize>() * shape.cols;
    println!("\n{format} {:?} x {}, {:.2} MB", shape.parts, shape.cols, bytes as f64 / 1e6);
    let mut one = 0.0;
    for rows in ROWS {
        let mut call = Call::new(backend, std::mem::take(&mut weights), shape, rows);
        let time = median(|| call.run());
        weights = call.weights;
        one = if rows == 1 { time } else { one };
        println!(
            "{rows:5} rows {:9.1} us {:6.1} GB/s {:6.1} GMAC/s {:6.2}",
            time * 1e6,
            bytes as f64 / time / 1e9,
            (macs * rows) as f64 / time / 1e9,
            time / one
        );
    }
}

/// The products of a model of 30 layers with 135 million weights.
fn model(backend: &CpuBackend) {
    let rows = 16;
    let layers: Vec<Weight> =
        (0..30).flat_map(|_| SHAPES[..4].iter().map(|shape| weight(backend, Format::Q4_1, shape))).collect();
    let head = weight(backend, Format::Q8_0, &SHAPES[4]);
    let bytes = layers.iter().map(Weight::bytes).sum::<usize>() + head.bytes();
    let mut calls: Vec<Call<'_>> =
        SHAPES[..4].iter().map(|shape| Call::new(backend, Vec::new(), shape, rows)).collect();
    for (index, weight) in layers.into_iter().enumerate() {
        calls[index % 4].weights.push(weight);
    }
    println!("model, {:.1} MB: rows, layers, choice, all, GB/s, all in units of one row", bytes as f64 / 1e6);
    let mut one = 0.0;
    for rows in [1, 2, 4, 8, 12, 16] {
        let times = step(backend, &mut calls, &head, rows);
        let all = times.0 + times.1;
        one = if rows == 1 { all } else { one };
        println!(
            "{rows:5} {:8.3} ms {:8.3} ms {:8.3} ms {:6.1} {:6.2}",
            times.0 * 1e3,
            times.1 * 1e3,
            all * 1e3,
            bytes as f64 / all / 1e9,
            all / one
        );
    }
}

/// Median seconds of the layers and of the choice.
fn step(backend: &CpuBackend, calls: &mut [Call<'_>], head: &Weight, rows: usize) -> (f64, f64) {
    for call in &mut *calls {
        call.x.set_rows(rows);
        call.outs.iter_mut().for_each(|out| out.set_rows(rows));
    }
    let gain = tensor(backend, 1, 576);
    let x = tensor(backend, rows, 576);
    let (ids, mut choices) = ((0..rows).collect::<Vec<_>>(), Vec::new());
    let mut times = (Vec::new(), Vec::new());
    for _ in 0..60 {
        let begin = Instant::now();
        (0..30).for_each(|_| calls.iter_mut().for_each(Call::run));
        times.0.push(begin.elapsed().as_secs_f64());
        let begin = Instant::now();
        choices.clear();
        let pre = Pre::RmsNorm { weight: &gain, eps: 1e-5 };
        backend.choose(head, &x, &ids, pre, Among::first(49152), &mut choices).expect("finite logits");
        times.1.push(begin.elapsed().as_secs_f64());
    }
    times.0.sort_by(f64::total_cmp);
    times.1.sort_by(f64::total_cmp);
    (times.0[30], times.1[30])
}
