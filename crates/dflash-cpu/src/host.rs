use std::any::Any;
use std::ops::Range;

use dflash_tensor::{Buffer, Tensor};

/// A tensor's storage in main memory.
pub(crate) struct HostBuffer(Vec<f32>);

impl HostBuffer {
    /// `len` zeros.
    pub(crate) fn zeroed(len: usize) -> Self {
        Self(vec![0.0; len])
    }
}

impl Buffer for HostBuffer {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// A zeroed tensor with room for `rows` rows.
pub(crate) fn tensor(rows: usize, cols: usize) -> Tensor {
    Tensor::new(rows, cols, Box::new(HostBuffer::zeroed(rows * cols)))
}

/// The rows in use, one after the other.
pub(crate) fn rows(tensor: &Tensor) -> &[f32] {
    let len = tensor.rows() * tensor.cols();
    let buffer = tensor.buffer().as_any().downcast_ref::<HostBuffer>();
    &buffer.expect("a tensor of this backend").0[..len]
}

/// The rows in use, one after the other.
pub(crate) fn rows_mut(tensor: &mut Tensor) -> &mut [f32] {
    let len = tensor.rows() * tensor.cols();
    let buffer = tensor.buffer_mut().as_any_mut().downcast_mut::<HostBuffer>();
    &mut buffer.expect("a tensor of this backend").0[..len]
}

/// [`dflash_tensor::Backend::copy`].
pub(crate) fn copy(source: &Tensor, from: Range<usize>, target: &mut Tensor, row: usize, col: usize) {
    let (width, target_cols) = (source.cols(), target.cols());
    assert!(col + width <= target_cols, "columns {col}..{} of {target_cols}", col + width);
    let source = &rows(source)[from.start * width..from.end * width];
    let target = &mut rows_mut(target)[row * target_cols..];
    for (source, target) in source.chunks_exact(width).zip(target.chunks_exact_mut(target_cols)) {
        target[col..][..width].copy_from_slice(source);
    }
}
