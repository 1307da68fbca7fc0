//! A draft as a folder that others read: z-lab and `speculators` layouts and GGUF, and the way back from z-lab.

mod check;
mod container;
mod gguf;
mod json;
mod read;
mod speculators;
mod staged;
mod stored;
mod zlab;

use std::path::Path;

use dflash_models::{GgufVocabulary, Target};

use crate::{DraftShape, DraftWeights, TrainError};

pub use read::read_zlab;
pub use staged::{Existing, Staged};

/// How the matrices of a z-lab draft are stored; its gains are f32 with [`ZlabFormat::F32`] and bf16 otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZlabFormat {
    /// IEEE single: what training goes on from.
    F32,
    /// bfloat16.
    Bf16,
    /// MLX affine, 8 bits in groups of 64 with scale and bias in bf16: 1.0625 bytes a weight.
    Mlx8,
    /// MLX affine, 4 bits in groups of 64: 0.5625 bytes a weight.
    Mlx4,
}

/// How the tensors of a `speculators` draft are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpeculatorsFormat {
    /// IEEE single.
    F32,
    /// bfloat16.
    Bf16,
}

/// How the matrices of a GGUF draft are stored; its gains are f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GgufFormat {
    /// IEEE single.
    F32,
    /// IEEE half.
    F16,
    /// 8 bits in blocks of 32 with a scale in f16: 1.0625 bytes a weight. Rows that are no whole blocks are F16.
    Q8_0,
}

/// Which toolkit is to read a draft.
#[derive(Clone, Copy)]
pub enum Layout<'a> {
    /// `config.json` and `model.safetensors` with the body alone; embedding and head are the target's.
    Zlab(ZlabFormat),
    /// The same files with the target's embedding and, of its head, the rows that the draft can propose.
    Speculators {
        /// Of all matrices and gains.
        format: SpeculatorsFormat,
        /// Where embedding and head come from.
        target: &'a dyn Target,
    },
    /// `model.gguf` for llama.cpp, with the target's tokenizer and, for a reduced vocabulary, rows of its head.
    Gguf {
        /// Of the matrices.
        format: GgufFormat,
        /// Where the head's rows come from.
        target: &'a dyn Target,
        /// The target's tokenizer.
        vocabulary: &'a GgufVocabulary,
    },
}

/// Writes a draft into the folder `dir`, which is whole or not there at all, whatever happens.
///
/// # Errors
/// [`TrainError::Refused`] for weights that are not those of the shape and for a target that the draft is not for,
/// [`TrainError::Bad`] for a folder that may not be replaced, [`TrainError::Io`].
pub fn export(
    dir: &Path,
    existing: Existing,
    shape: &DraftShape,
    weights: &DraftWeights,
    layout: Layout<'_>,
) -> Result<(), TrainError> {
    let staged = Staged::new(dir, existing)?;
    write_files(&staged.path(), shape, weights, layout)?;
    staged.commit()
}

/// Writes the files of a draft into `dir`, a folder such as [`Staged`] holds, beside what else belongs there.
///
/// # Errors
/// As [`export`].
pub fn write_files(
    dir: &Path,
    shape: &DraftShape,
    weights: &DraftWeights,
    layout: Layout<'_>,
) -> Result<(), TrainError> {
    check::check(shape, weights)?;
    match layout {
        Layout::Zlab(format) => zlab::write(dir, shape, weights, format),
        Layout::Speculators { format, target } => speculators::write(dir, shape, weights, format, target),
        Layout::Gguf { format, target, vocabulary } => {
            gguf::write(dir, shape, weights, format, target, vocabulary)
        }
    }
}
