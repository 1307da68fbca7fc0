use std::any::Any;

/// Storage that only its backend can look into.
pub trait Buffer: Any + Send + Sync {
    /// For the backend's downcast.
    fn as_any(&self) -> &dyn Any;
    /// For the backend's downcast.
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

/// A matrix of f32 activations, row major, on a backend: `[rows, cols]`.
///
/// The number of rows varies from step to step within the capacity reserved at creation, so a tensor is
/// allocated once and reused.
pub struct Tensor {
    rows: usize,
    capacity: usize,
    cols: usize,
    buffer: Box<dyn Buffer>,
}

impl Tensor {
    /// Wraps a backend's storage for `capacity` rows of `cols` elements; all rows are in use at first.
    pub fn new(capacity: usize, cols: usize, buffer: Box<dyn Buffer>) -> Self {
        Self { rows: capacity, capacity, cols, buffer }
    }

    /// Rows in use.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Rows that fit.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Elements of a row.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Sets the rows in use; contents of rows already there stay.
    ///
    /// # Panics
    /// When `rows` exceeds the capacity.
    pub fn set_rows(&mut self, rows: usize) {
        assert!(rows <= self.capacity, "{rows} rows in a tensor of {} rows", self.capacity);
        self.rows = rows;
    }

    /// The backend's storage.
    pub fn buffer(&self) -> &dyn Buffer {
        self.buffer.as_ref()
    }

    /// The backend's storage.
    pub fn buffer_mut(&mut self) -> &mut dyn Buffer {
        self.buffer.as_mut()
    }
}
