use std::any::Any;

use crate::{BackendError, Format};

/// The raw bytes of a matrix as they stand in its file.
#[derive(Clone, Copy)]
pub enum PartData<'a> {
    /// Rows of blocks, one after the other.
    Plain(&'a [u8]),
    /// MLX affine: packed elements, scales `[rows, cols/group]`, biases `[rows, cols/group]`.
    Affine {
        /// Bit stream of the elements, row by row.
        elements: &'a [u8],
        /// Scales.
        scales: &'a [u8],
        /// Biases.
        biases: &'a [u8],
    },
}

/// One matrix `[rows, cols]` (output features, input features) to be packed.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    /// Storage format of `data`.
    pub format: Format,
    /// Output features.
    pub rows: usize,
    /// Input features.
    pub cols: usize,
    /// The bytes.
    pub data: PartData<'a>,
    /// Added to the product, one per output feature.
    pub bias: Option<&'a [f32]>,
    /// `order[i]` is the row of `data` that becomes output row `i`; `None` keeps the order of the file.
    pub order: Option<&'a [u32]>,
}

impl<'a> Part<'a> {
    /// A matrix in file order without bias.
    pub fn plain(format: Format, rows: usize, cols: usize, data: &'a [u8]) -> Self {
        Self { format, rows, cols, data: PartData::Plain(data), bias: None, order: None }
    }

    /// Checks block width and byte lengths.
    ///
    /// # Errors
    /// [`BackendError::RaggedBlocks`] or [`BackendError::WrongLength`].
    pub fn check(&self) -> Result<(), BackendError> {
        let (format, rows, cols) = (self.format, self.rows, self.cols);
        let block = format.block();
        if cols % block != 0 {
            return Err(BackendError::RaggedBlocks { format, cols, block });
        }
        let length = |expected: usize, found: usize| match expected == found {
            true => Ok(()),
            false => Err(BackendError::WrongLength { format, rows, cols, expected, found }),
        };
        match (self.data, format) {
            (PartData::Plain(bytes), _) => length(rows * format.row_bytes(cols), bytes.len()),
            (PartData::Affine { elements, scales, biases }, Format::Affine { group, scale, .. }) => {
                length(rows * format.row_bytes(cols), elements.len())?;
                let scale_bytes = rows * (cols / group as usize) * scale.bytes();
                length(scale_bytes, scales.len())?;
                length(scale_bytes, biases.len())
            }
            (PartData::Affine { .. }, _) => Err(BackendError::UnsupportedFormat(format)),
        }
    }
}

/// Shape of one part of a packed weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartShape {
    /// Output features.
    pub rows: usize,
    /// Format it was packed from.
    pub format: Format,
}

/// Several matrices that share an input, packed by a backend and opaque outside of it.
pub struct Weight {
    cols: usize,
    parts: Vec<PartShape>,
    bytes: usize,
    store: Box<dyn Any + Send + Sync>,
}

impl Weight {
    /// Wraps a backend's packed form; `bytes` is what one pass over it reads.
    pub fn new(cols: usize, parts: Vec<PartShape>, bytes: usize, store: Box<dyn Any + Send + Sync>) -> Self {
        Self { cols, parts, bytes, store }
    }

    /// Input features.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Output features of each part.
    pub fn parts(&self) -> &[PartShape] {
        &self.parts
    }

    /// Output features of all parts together.
    pub fn rows(&self) -> usize {
        self.parts.iter().map(|part| part.rows).sum()
    }

    /// Bytes that one pass reads.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The backend's packed form.
    pub fn store(&self) -> &(dyn Any + Send + Sync) {
        self.store.as_ref()
    }
}
