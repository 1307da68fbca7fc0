use dflash_tensor::Format;
pub use dflash_tensor::conformance::{FORMATS, Matrix};

/// Input widths that `format` allows: one block and several.
pub fn widths(format: Format) -> impl Iterator<Item = usize> {
    [32, 64, 256, 576, 1536, 4096].into_iter().filter(move |cols| cols % format.block() == 0)
}

/// With a bias for each output.
pub fn biased(mut matrix: Matrix) -> Matrix {
    matrix.bias = Some(Noise(99).numbers(matrix.rows));
    matrix
}

/// A small deterministic source of numbers.
pub struct Noise(pub u64);

impl Noise {
    pub fn bits(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32
    }

    /// In -1..1.
    pub fn number(&mut self) -> f32 {
        self.bits() as f32 / (1_u64 << 30) as f32 - 1.0
    }

    pub fn numbers(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.number()).collect()
    }
}
