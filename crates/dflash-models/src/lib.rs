//! Checkpoints and models of dflash: readers of safetensors, GGUF and MLX-quantised files, target families
//! and draft models.
//!
//! Everything here is immutable after load and describes its forward pass with the operations of
//! [`dflash_tensor::Backend`]. This crate knows no text, no sampling and no concrete backend. Whatever a
//! file says that would change the mathematics is either computed or refused by name; every tensor is used
//! or named in a note.

mod affine;
mod arch_keys;
mod attention;
mod checkpoint;
mod conv;
mod decoder;
mod delta;
mod dense;
mod dense_layer;
#[cfg(test)]
mod dequant;
mod draft;
mod element;
mod error;
mod families;
mod gemma4;
mod gguf;
mod gguf_experts;
mod gguf_names;
mod hf;
mod hybrid;
mod json;
mod layer;
mod lfm2;
mod llama;
mod loader;
mod map;
mod matrix;
mod mlp;
#[cfg(test)]
mod module_tests;
mod modules;
mod moe;
mod names;
mod pass;
mod projections;
mod quantization;
mod quantizer;
mod qwen2;
mod qwen3;
mod qwen3_5;
mod qwen3_5_moe;
mod qwen3_moe;
mod qwen3_next;
mod refuse;
mod rope;
mod safetensors;
mod shards;
mod sparse;
mod tables;
mod taps;
mod target;
mod text;
mod toolkits;
mod workspace;

pub use affine::{AffineMatrix, DraftQuant};
pub use dense_layer::DenseLayer;
pub use draft::{Draft, DraftOptions, DraftSpec, DraftState, DraftWorkspace, Ranked};
pub use element::Element;
pub use error::{Difference, ModelError};
pub use families::supported_model_types;
pub use taps::Taps;
pub use target::{LoadedTarget, Target, TargetFiles, TargetSpec, load_target};
pub use text::{GgufVocabulary, TextAssets};
pub use workspace::Workspace;
