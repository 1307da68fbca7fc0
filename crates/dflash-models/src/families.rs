use std::path::Path;

use crate::gguf::Gguf;
use crate::hf::HfDir;
use crate::loader::LoadContext;
use crate::text::GgufVocabulary;
use crate::{
    ModelError, Target, gemma4, lfm2, llama, qwen2, qwen3, qwen3_5, qwen3_5_moe, qwen3_moe, qwen3_next,
};

type Loaded = Result<Box<dyn Target>, ModelError>;

/// How one structural kind of target is named in files and loaded from them.
pub(crate) struct Family {
    /// `model_type`s of config.json that mean it, the common one first.
    pub(crate) model_types: &'static [&'static str],
    /// `general.architecture` of GGUF.
    pub(crate) arch: &'static str,
    /// From a directory in HF layout.
    pub(crate) hf: fn(&HfDir, &mut LoadContext<'_>) -> Loaded,
    /// From a GGUF file.
    pub(crate) gguf: fn(Gguf, &GgufVocabulary, &mut LoadContext<'_>) -> Loaded,
}

/// Every family there is.
const FAMILIES: &[Family] = &[
    llama::FAMILY,
    qwen2::FAMILY,
    qwen3::FAMILY,
    qwen3_moe::FAMILY,
    qwen3_next::FAMILY,
    qwen3_5::FAMILY,
    qwen3_5_moe::FAMILY,
    lfm2::FAMILY,
    gemma4::FAMILY,
];

/// `model_type` of every target family that can be loaded.
pub fn supported_model_types() -> impl Iterator<Item = &'static str> {
    FAMILIES.iter().flat_map(|family| family.model_types).copied()
}

/// The family of a `model_type`.
///
/// # Errors
/// [`ModelError::UnsupportedModel`] with the names that are supported.
pub(crate) fn of_model_type(path: &Path, name: &str) -> Result<&'static Family, ModelError> {
    let family = FAMILIES.iter().find(|family| family.model_types.contains(&name));
    family.ok_or_else(|| unsupported(path, name, supported_model_types()))
}

/// The family of a GGUF architecture.
///
/// # Errors
/// [`ModelError::UnsupportedModel`] with the names that are supported.
pub(crate) fn of_arch(path: &Path, name: &str) -> Result<&'static Family, ModelError> {
    let family = FAMILIES.iter().find(|family| family.arch == name);
    family.ok_or_else(|| unsupported(path, name, FAMILIES.iter().map(|family| family.arch)))
}

fn unsupported(path: &Path, name: &str, supported: impl Iterator<Item = &'static str>) -> ModelError {
    ModelError::UnsupportedModel {
        path: path.to_owned(),
        found: name.to_owned(),
        supported: supported.collect::<Vec<_>>().join(", "),
    }
}
