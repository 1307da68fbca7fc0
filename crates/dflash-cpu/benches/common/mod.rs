//! Random weights and calls on them, for whatever times kernels.
#![allow(dead_code, reason = "each binary uses its own part")]

pub mod cases;

use dflash_cpu::CpuBackend;
use dflash_tensor::{Activation, AffineScale, Backend, Format, Part, PartData, Pre, Tail, Tensor, Weight};

/// Weights of one shape are repeated until they fill this many bytes, so that they come from memory, as they do
/// while a model decodes.
pub const ROTATION: usize = 96 << 20;

/// Output features of the parts, input features, and what becomes of the product.
#[derive(Clone, Copy)]
pub struct Shape {
    pub parts: &'static [usize],
    pub cols: usize,
    pub tail: Tail,
}

impl Shape {
    const fn store(parts: &'static [usize], cols: usize) -> Self {
        Self { parts, cols, tail: Tail::Store }
    }

    const fn add(parts: &'static [usize], cols: usize) -> Self {
        Self { parts, cols, tail: Tail::Add }
    }

    const fn gated(parts: &'static [usize], cols: usize) -> Self {
        Self { parts, cols, tail: Tail::Glu(Activation::Silu) }
    }

    /// Multiply-adds of a row.
    pub fn macs(&self) -> usize {
        self.parts.iter().sum::<usize>() * self.cols
    }
}

/// SmolLM2-135M: queries with keys and values, output, gate and up, down, head.
pub const SMALL: [Shape; 5] = [
    Shape::store(&[576, 192, 192], 576),
    Shape::add(&[576], 576),
    Shape::gated(&[1536, 1536], 576),
    Shape::add(&[576], 1536),
    Shape::store(&[49152], 576),
];

/// Much the same with inputs in whole groups of 128 and super-blocks of 256.
pub const WIDE: [Shape; 3] =
    [Shape::gated(&[1536, 1536], 512), Shape::add(&[576], 1536), Shape::store(&[49152], 512)];

/// Layers of Qwen3.5-4B: gated attention and its output, the inputs of a linear layer and its output, the MLP.
pub const QWEN3_5_4B: [Shape; 6] = [
    Shape::store(&[4096, 4096, 1024, 1024], 2560),
    Shape::add(&[2560], 4096),
    Shape::store(&[8192, 4096], 2560),
    Shape::store(&[32, 32], 2560),
    Shape::gated(&[9216, 9216], 2560),
    Shape::add(&[2560], 9216),
];

/// Layers of Qwen3-8B.
pub const QWEN3_8B: [Shape; 4] = [
    Shape::store(&[4096, 1024, 1024], 4096),
    Shape::add(&[4096], 4096),
    Shape::gated(&[12288, 12288], 4096),
    Shape::add(&[4096], 12288),
];

pub const fn affine(bits: u8, group: u16) -> Format {
    Format::Affine { bits, group, scale: AffineScale::Bf16 }
}

/// Every format of weights.
pub fn formats() -> Vec<Format> {
    let blocks = [Format::Q4_1, Format::Q4_0, Format::Q5_1, Format::Q5_0, Format::Q8_0];
    let super_blocks = [Format::Q2K, Format::Q3K, Format::Q4K, Format::Q5K, Format::Q6K];
    let groups = [affine(4, 32), affine(4, 128)];
    let widths = [2, 3, 4, 5, 6, 8].map(|bits| affine(bits, 64));
    let floats = [Format::Bf16, Format::F16, Format::F32];
    [&blocks[..], &super_blocks, &groups, &widths, &floats].concat()
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
            // Bytes from 0x38 to 0x3b make every float an ordinary small number; with denormal ones, which no
            // checkpoint has, processors take twice as long.
            0x38 | (state >> 24) as u8 & 3
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

pub fn weight(backend: &CpuBackend, format: Format, shape: &Shape) -> Weight {
    let matrices: Vec<Matrix> =
        shape.parts.iter().map(|&rows| Matrix::new(format, rows, shape.cols)).collect();
    let parts: Vec<Part<'_>> = matrices.iter().map(Matrix::part).collect();
    backend.pack(&parts).expect("whole blocks")
}

/// Weights of one shape that fill `bytes`, one at least.
pub fn weights(backend: &CpuBackend, format: Format, shape: &Shape, bytes: usize) -> Vec<Weight> {
    let mut weights = vec![weight(backend, format, shape)];
    while weights.len() * weights[0].bytes() < bytes {
        weights.push(weight(backend, format, shape));
    }
    weights
}

pub fn tensor(backend: &CpuBackend, rows: usize, cols: usize) -> Tensor {
    let mut tensor = backend.tensor(rows, cols);
    let values: Vec<f32> = (0..rows * cols).map(|i| ((i * 7919) % 1001) as f32 / 500.0 - 1.0).collect();
    backend.write(&mut tensor, 0, &values);
    tensor
}

/// A linear operation on rotating weights.
pub struct Call<'a> {
    backend: &'a CpuBackend,
    pub weights: Vec<Weight>,
    next: usize,
    gain: Tensor,
    pub x: Tensor,
    tail: Tail,
    pub outs: Vec<Tensor>,
}

impl<'a> Call<'a> {
    pub fn new(backend: &'a CpuBackend, weights: Vec<Weight>, shape: &Shape, rows: usize) -> Self {
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

    pub fn run(&mut self) {
        let mut outs = self.outs.iter_mut().collect::<Vec<_>>();
        let pre = match self.tail {
            Tail::Add => Pre::None,
            _ => Pre::RmsNorm { weight: &self.gain, eps: 1e-5 },
        };
        self.backend.linear(&self.weights[self.next], &self.x, pre, self.tail, &mut outs);
        self.next = (self.next + 1) % self.weights.len();
    }
}
