use dflash_tensor::AffineScale;

use super::{bf16_lane, f16_lane, f32_lane};
use crate::pack::planes::{self, QUADS};
use crate::pack::{BLOCK, Kind, LANES, Super};
use crate::quantize::{QuantBlock, WideBlock};

/// Quantised activations of 32 inputs.
pub(super) trait Block {
    /// The integers in the order of the inputs.
    fn integers(&self) -> [i32; BLOCK];

    /// Scale, its product with the sum, and the sums of both halves.
    fn factors(&self) -> Factors;
}

/// Numbers of a block of activations.
pub(super) struct Factors {
    scale: f32,
    sum: f32,
    totals: [i32; 2],
}

impl Block for QuantBlock {
    fn integers(&self) -> [i32; BLOCK] {
        self.q.map(i32::from)
    }

    fn factors(&self) -> Factors {
        Factors { scale: self.scale, sum: self.sum, totals: self.totals.map(i32::from) }
    }
}

impl Block for WideBlock {
    fn integers(&self) -> [i32; BLOCK] {
        let mut integers = [0; BLOCK];
        for (four, q) in integers.as_chunks_mut::<4>().0.iter_mut().zip(self.q.as_chunks::<4>().0) {
            *four = [q[0], q[2], q[1], q[3]].map(i32::from);
        }
        integers
    }

    fn factors(&self) -> Factors {
        Factors { scale: self.scale, sum: self.sum, totals: self.totals.map(i32::from) }
    }
}

/// Scale and minimum of a unit.
struct Head {
    scale: [f32; LANES],
    min: [f32; LANES],
}

/// The outputs of a group of quantised weights for one input row. A block's sums are exact integers; scaled
/// sums are added in block order, each followed by its minimum.
pub(super) fn dot<B: Block>(kind: Kind, weights: &[u8], x: &[B]) -> [f32; LANES] {
    let mut lanes = [0.0_f32; LANES];
    let units = weights.chunks_exact(kind.unit_bytes() * LANES);
    for (unit, x) in units.zip(x.chunks_exact(kind.unit_blocks())) {
        let (head, blocks) = unit.split_at(kind.head_bytes() * LANES);
        let head = read_head(kind, head);
        for (block, x) in blocks.chunks_exact(kind.block_bytes() * LANES).zip(x) {
            let (factors, elements) = block.split_at(kind.block_head_bytes() * LANES);
            let (sums, x) = (half_sums(kind.bits(), elements, &x.integers()), x.factors());
            match kind {
                Kind::Super(kind) => add_super(&mut lanes, kind, &head, factors, &sums, &x),
                _ => add_flat(&mut lanes, kind, &head, &sums, &x),
            }
        }
    }
    lanes
}

fn read_head(kind: Kind, bytes: &[u8]) -> Head {
    let (scale, min) = bytes.split_at(kind.scale_bytes() * LANES);
    Head { scale: widen(kind, scale), min: if kind.has_min() { widen(kind, min) } else { [0.0; LANES] } }
}

fn add_flat(lanes: &mut [f32; LANES], kind: Kind, head: &Head, sums: &[[i32; LANES]; 2], x: &Factors) {
    let zero = kind.zero() * (x.totals[0] + x.totals[1]);
    for (lane, sum) in lanes.iter_mut().enumerate() {
        let product = (sums[0][lane] + sums[1][lane] + zero) as f32;
        *sum = product.mul_add(head.scale[lane] * x.scale, *sum);
        if kind.has_min() {
            *sum = head.min[lane].mul_add(x.sum, *sum);
        }
    }
}

fn add_super(
    lanes: &mut [f32; LANES],
    kind: Super,
    head: &Head,
    factors: &[u8],
    sums: &[[i32; LANES]; 2],
    x: &Factors,
) {
    let factors = factors.as_chunks().0.iter().map(|&head| kind.factors(head));
    for (lane, (sum, ([scale, second], mins))) in lanes.iter_mut().zip(factors).enumerate() {
        let (d, m, halves) = (head.scale[lane], head.min[lane], [sums[0][lane], sums[1][lane]]);
        match kind {
            // One scale and one minimum, exact in f32: eleven bits by six.
            Super::Q4K | Super::Q5K => {
                let (scale, min) = (d * scale as f32, -m * mins[0] as f32);
                *sum = ((halves[0] + halves[1]) as f32).mul_add(scale * x.scale, *sum);
                *sum = min.mul_add(x.sum, *sum);
            }
            Super::Q2K | Super::Q3K | Super::Q6K => {
                let zero = kind.zero();
                let product =
                    scale * (halves[0] + zero * x.totals[0]) + second * (halves[1] + zero * x.totals[1]);
                *sum = (product as f32).mul_add(d * x.scale, *sum);
                if kind.has_min() {
                    let product = mins[0] * x.totals[0] + mins[1] * x.totals[1];
                    *sum = (product as f32).mul_add(-(m * x.scale), *sum);
                }
            }
        }
    }
}

/// Sums of the products of the first and of the last sixteen elements, before the zero.
fn half_sums(bits: u8, elements: &[u8], x: &[i32; BLOCK]) -> [[i32; LANES]; 2] {
    match bits {
        2 => half_sums_of::<2>(elements, x),
        3 => half_sums_of::<3>(elements, x),
        4 => half_sums_of::<4>(elements, x),
        5 => half_sums_of::<5>(elements, x),
        6 => half_sums_of::<6>(elements, x),
        _ => half_sums_of::<8>(elements, x),
    }
}

fn half_sums_of<const BITS: u8>(elements: &[u8], x: &[i32; BLOCK]) -> [[i32; LANES]; 2] {
    let words: &[[[u8; 4]; LANES]] = elements.as_chunks().0.as_chunks().0;
    let mut sums = [[0; LANES]; 2];
    for (quad, x) in x.as_chunks::<4>().0.iter().enumerate() {
        for (lane, sum) in sums[quad / (QUADS / 2)].iter_mut().enumerate() {
            let elements =
                planes::quad(BITS, quad, |word| u32::from_le_bytes(words[word][lane])).to_le_bytes();
            let integer = |byte: u8| if BITS == 8 { i32::from(byte.cast_signed()) } else { i32::from(byte) };
            *sum += integer(elements[0]) * x[0]
                + integer(elements[1]) * x[1]
                + integer(elements[2]) * x[2]
                + integer(elements[3]) * x[3];
        }
    }
    sums
}

fn widen(kind: Kind, bytes: &[u8]) -> [f32; LANES] {
    let width = kind.scale_bytes();
    std::array::from_fn(|lane| {
        let bytes = &bytes[lane * width..][..width];
        match kind.scale() {
            AffineScale::F16 => f16_lane(bytes),
            AffineScale::Bf16 => bf16_lane(bytes),
            AffineScale::F32 => f32_lane(bytes),
        }
    })
}
