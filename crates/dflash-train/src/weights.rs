use std::collections::BTreeMap;

/// A tensor in f32, row after row.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    /// `[rows, columns]` or `[columns]`.
    pub shape: Vec<usize>,
    /// As many as the shape says.
    pub values: Vec<f32>,
}

/// The tensors of a draft by their names in the z-lab layout: those of [`crate::DraftShape::tensors`].
pub type DraftWeights = BTreeMap<String, Matrix>;
