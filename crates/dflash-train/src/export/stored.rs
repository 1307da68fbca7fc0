use std::fs::File;
use std::io::Write;
use std::path::Path;

use dflash_models::{AffineMatrix, DraftQuant};
use dflash_tensor::AffineScale;
use half::bf16;
use safetensors::tensor::{Dtype, TensorView};

use super::staged::WEIGHTS;
use crate::{DraftShape, Matrix, TrainError};

/// A tensor as it will stand in a safetensors file.
pub(super) struct Stored {
    name: String,
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Stored {
    /// In f32.
    pub(super) fn f32(name: &str, matrix: &Matrix) -> Self {
        let bytes = bytemuck::cast_slice(&matrix.values).to_vec();
        Self { name: name.into(), dtype: Dtype::F32, shape: matrix.shape.clone(), bytes }
    }

    /// In bf16.
    pub(super) fn bf16(name: &str, matrix: &Matrix) -> Self {
        let bytes = matrix.values.iter().flat_map(|&value| bf16::from_f32(value).to_le_bytes()).collect();
        Self { name: name.into(), dtype: Dtype::BF16, shape: matrix.shape.clone(), bytes }
    }

    /// The matrix of a module in MLX affine form: elements, scales and biases.
    pub(super) fn affine(module: &str, matrix: &Matrix, quant: DraftQuant) -> [Self; 3] {
        let [rows, cols] = matrix.shape[..] else { unreachable!("only matrices are quantised") };
        let packed = AffineMatrix::quantize(&matrix.values, cols, quant, AffineScale::Bf16);
        let (words, groups) = (cols * usize::from(quant.bits) / 32, cols / usize::from(quant.group));
        let [elements, scales, biases] = packed.bytes().map(<[u8]>::to_vec);
        let tensor = |tail: &str, dtype, cols, bytes| Self {
            name: format!("{module}.{tail}"),
            dtype,
            shape: vec![rows, cols],
            bytes,
        };
        [
            tensor("weight", Dtype::U32, words, elements),
            tensor("scales", Dtype::BF16, groups, scales),
            tensor("biases", Dtype::BF16, groups, biases),
        ]
    }

    /// `d2t` of a reduced vocabulary: how far a target id lies above its row.
    pub(super) fn offsets(ids: &[u32]) -> Self {
        let offset = |(row, &id): (usize, &u32)| i64::from(id) - row as i64;
        let bytes = ids.iter().enumerate().flat_map(|row| offset(row).to_le_bytes()).collect();
        Self { name: "d2t".into(), dtype: Dtype::I64, shape: vec![ids.len()], bytes }
    }

    /// `t2d` of a reduced vocabulary: whether a target id has a row.
    pub(super) fn reached(ids: &[u32], shape: &DraftShape) -> Self {
        let mut bytes = vec![0; shape.target_vocab];
        ids.iter().for_each(|&id| bytes[id as usize] = 1);
        Self { name: "t2d".into(), dtype: Dtype::BOOL, shape: vec![shape.target_vocab], bytes }
    }

    fn view(&self) -> TensorView<'_> {
        let view = TensorView::new(self.dtype, self.shape.clone(), &self.bytes);
        view.expect("as many bytes as the shape says")
    }
}

/// Writes `model.safetensors`; `framework` is what its metadata calls the format.
pub(super) fn write(dir: &Path, tensors: &[Stored], framework: &str) -> Result<(), TrainError> {
    let views = tensors.iter().map(|tensor| (&tensor.name, tensor.view()));
    let metadata = [("format".to_owned(), framework.to_owned())].into_iter().collect();
    let bytes = safetensors::serialize(views, Some(metadata)).expect("a short header");
    write_through(&dir.join(WEIGHTS), &bytes)
}

/// Writes a file and waits until the disk has it: a rename that follows must not overtake it.
pub(super) fn write_through(path: &Path, bytes: &[u8]) -> Result<(), TrainError> {
    let written = File::create(path).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    written.map_err(TrainError::io(path))
}
