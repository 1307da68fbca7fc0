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

/// A matrix `[rows, cols]` to be packed, or some of its rows.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    /// Storage format of `data`.
    pub format: Format,
    /// Rows of `data`: the output features, unless `order` picks some.
    pub rows: usize,
    /// Input features.
    pub cols: usize,
    /// The bytes.
    pub data: PartData<'a>,
    /// Added to the product, one per output feature, in the order of the output.
    pub bias: Option<&'a [f32]>,
    /// `order[i]` is the row of `data` that becomes output row `i`. It may leave rows out and repeat others;
    /// `None` takes all of them as they stand in the file.
    pub order: Option<&'a [u32]>,
}

impl<'a> Part<'a> {
    /// A matrix in file order without bias.
    pub fn plain(format: Format, rows: usize, cols: usize, data: &'a [u8]) -> Self {
        Self { format, rows, cols, data: PartData::Plain(data), bias: None, order: None }
    }

    /// Output features: the rows that `order` names, or all.
    pub fn outputs(&self) -> usize {
        self.order.map_or(self.rows, <[u32]>::len)
    }

    /// Checks block width and byte lengths.
    ///
    /// # Errors
    /// [`BackendError::RaggedBlocks`] or [`BackendError::WrongLength`].
    ///
    /// # Panics
    /// When `order` names a row that `data` does not have, or `bias` has not one number per output feature.
    pub fn check(&self) -> Result<(), BackendError> {
        let (format, rows, cols) = (self.format, self.rows, self.cols);
        let beyond = self.order.into_iter().flatten().find(|&&row| row as usize >= rows);
        assert!(beyond.is_none(), "row {beyond:?} of a matrix of {rows} rows");
        let (biases, outputs) = (self.bias.map(<[f32]>::len), self.outputs());
        assert!(
            biases.is_none_or(|biases| biases == outputs),
            "{biases:?} biases of {outputs} output features"
        );
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
    /// Output features, [`Part::outputs`].
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
