use std::ops::Range;

use candle_core::{Layout, Result};
use gemm::{Parallelism, gemm};

/// A matrix in memory.
#[derive(Clone, Copy)]
pub struct View<'a> {
    values: &'a [f32],
    rows: usize,
    cols: usize,
    row_stride: usize,
    col_stride: usize,
}

impl<'a> View<'a> {
    /// Rows of `cols` values, one after the other: as many as there are.
    pub fn new(values: &'a [f32], cols: usize) -> Self {
        Self { values, rows: values.len() / cols, cols, row_stride: cols, col_stride: 1 }
    }

    /// That of an operation's argument.
    ///
    /// # Errors
    /// When it has not two dimensions.
    pub fn of(values: &'a [f32], layout: &Layout) -> Result<Self> {
        let (rows, cols) = layout.shape().dims2()?;
        let (row_stride, col_stride) = (layout.stride()[0], layout.stride()[1]);
        let view = Self { values: &values[layout.start_offset()..], rows, cols, row_stride, col_stride };
        assert!(view.is_sound(), "values of a tensor");
        Ok(view)
    }

    /// Rows and columns.
    pub fn shape(&self) -> (usize, usize) {
        (self.rows, self.cols)
    }

    /// Whether the values of a column, not those of a row, lie one after the other.
    pub fn is_by_columns(&self) -> bool {
        self.row_stride == 1 && self.col_stride != 1
    }

    /// Some rows of a column that lies in one piece.
    ///
    /// # Panics
    /// When it does not.
    pub fn column(&self, col: usize, rows: Range<usize>) -> &'a [f32] {
        assert_eq!(self.row_stride, 1, "columns of a matrix");
        &self.values[col * self.col_stride..][rows]
    }

    /// A row that lies in one piece.
    ///
    /// # Panics
    /// When it does not.
    pub fn row(&self, row: usize) -> &'a [f32] {
        assert_eq!(self.col_stride, 1, "rows of a matrix");
        &self.values[row * self.row_stride..][..self.cols]
    }

    /// Its first rows.
    ///
    /// # Panics
    /// When it has fewer.
    pub fn first(self, rows: usize) -> Self {
        assert!(rows <= self.rows, "{rows} of {} rows", self.rows);
        Self { rows, ..self }
    }

    /// Transposed.
    pub fn t(self) -> Self {
        let Self { values, rows, cols, row_stride, col_stride } = self;
        Self { values, rows: cols, cols: rows, row_stride: col_stride, col_stride: row_stride }
    }

    /// Whether all its values are there.
    fn is_sound(&self) -> bool {
        let last = |count: usize, stride: usize| count.saturating_sub(1) * stride;
        let (rows, cols) = (last(self.rows, self.row_stride), last(self.cols, self.col_stride));
        self.rows * self.cols == 0 || rows + cols < self.values.len()
    }
}

/// Adds `a * b` to the first rows of `out`, on this thread.
///
/// # Panics
/// When the shapes do not fit, or `out` is too short.
pub fn add_product(a: View<'_>, b: View<'_>, out: &mut [f32]) {
    multiply(a, b, out, true);
}

/// `a * b`, row after row, on this thread.
///
/// # Panics
/// When the shapes do not fit.
pub fn product(a: View<'_>, b: View<'_>) -> Vec<f32> {
    let mut out = vec![0.0; a.rows * b.cols];
    multiply(a, b, &mut out, false);
    out
}

fn multiply(a: View<'_>, b: View<'_>, out: &mut [f32], add: bool) {
    assert!(a.cols == b.rows && a.rows * b.cols <= out.len(), "shapes of a product");
    assert!(a.is_sound() && b.is_sound(), "values of a product");
    let (kept, factor) = if add { (1.0, 1.0) } else { (0.0, 1.0) };
    let strides = |view: &View<'_>| (view.col_stride as isize, view.row_stride as isize);
    let ((a_cols, a_rows), (b_cols, b_rows)) = (strides(&a), strides(&b));
    // SAFETY: the pointers come from slices that hold every value which the sizes and strides reach, as asserted
    // above, and `out`, borrowed mutably, overlaps neither of the others.
    unsafe {
        gemm(
            a.rows,
            b.cols,
            a.cols,
            out.as_mut_ptr(),
            1,
            b.cols as isize,
            add,
            a.values.as_ptr(),
            a_cols,
            a_rows,
            b.values.as_ptr(),
            b_cols,
            b_rows,
            kept,
            factor,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_meet_columns() {
        let (a, b) = ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0, 0.0, 2.0, 1.0, 0.0, 3.0]);
        let (a, b) = (View::new(&a, 3), View::new(&b, 2));
        assert_eq!(product(a, b), [5.0, 11.0, 14.0, 23.0]);
        assert_eq!(product(a, b), product(a.t().t(), b));
        assert_eq!(product(b.t(), a.t()), [5.0, 14.0, 11.0, 23.0]);
        let mut out = [1.0, 1.0, 7.0];
        add_product(a.first(1), b, &mut out);
        assert_eq!(out, [6.0, 12.0, 7.0]);
    }

    #[test]
    #[should_panic(expected = "shapes of a product")]
    fn other_shapes_panic() {
        product(View::new(&[1.0; 6], 3), View::new(&[1.0; 6], 3));
    }
}
