use std::ops::Range;

use dflash_tensor::{Format, Part, PartData};

/// One matrix `[rows, cols]`, plain or quantised, ready to be packed.
#[derive(Clone, Copy)]
pub struct Matrix<'a> {
    /// How it is stored.
    pub format: Format,
    /// Output features.
    pub rows: usize,
    /// Input features.
    pub cols: usize,
    /// The bytes.
    pub data: PartData<'a>,
}

impl<'a> Matrix<'a> {
    /// As a part of a packed weight.
    pub fn part<'b>(&self, bias: Option<&'b [f32]>, order: Option<&'b [u32]>) -> Part<'b>
    where
        'a: 'b,
    {
        Part { format: self.format, rows: self.rows, cols: self.cols, data: self.data, bias, order }
    }

    /// The places where its bytes stand.
    pub(crate) fn sections(&self) -> impl Iterator<Item = &'a [u8]> {
        let (first, others) = match self.data {
            PartData::Plain(bytes) => (bytes, [&[][..]; 2]),
            PartData::Affine { elements, scales, biases } => (elements, [scales, biases]),
        };
        std::iter::once(first).chain(others)
    }

    /// Some of its rows: blocks and groups never cross a row.
    ///
    /// # Panics
    /// When the range is not within the rows.
    pub fn rows(&self, range: Range<usize>) -> Self {
        assert!(range.end <= self.rows, "rows {range:?} of {}", self.rows);
        let slice = |bytes: &'a [u8]| {
            let row = bytes.len() / self.rows;
            &bytes[range.start * row..range.end * row]
        };
        let data = match self.data {
            PartData::Plain(bytes) => PartData::Plain(slice(bytes)),
            PartData::Affine { elements, scales, biases } => {
                PartData::Affine { elements: slice(elements), scales: slice(scales), biases: slice(biases) }
            }
        };
        Self { rows: range.len(), data, ..*self }
    }
}
