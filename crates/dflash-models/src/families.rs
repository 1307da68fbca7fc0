use std::path::Path;

use crate::gguf::Gguf;
use crate::hf::HfDir;
use crate::loader::LoadContext;
use crate::text::GgufVocabulary;
use crate::{ModelError, Target, llama, qwen2, qwen3};

type Loaded = Result<Box<dyn Target>, ModelError>;

/// How one structural kind of target is named in files and loaded from them.
pub(crate) struct Family {
    /// `model_type` of config.json.
    pub(crate) model_type: &'static str,
    /// `general.architecture` of GGUF.
    pub(crate) arch: &'static str,
    /// From a directory in HF layout.
    pub(crate) hf: fn(&HfDir, &mut LoadContext<'_>) -> Loaded,
    /// From a GGUF file.
    pub(crate) gguf: fn(Gguf, &GgufVocabulary, &mut LoadContext<'_>) -> Loaded,
}

/// Every family there is.
const FAMILIES: &[Family] = &[llama::FAMILY, qwen2::FAMILY, qwen3::FAMILY];

/// `model_type` of every target family that can be loaded.
pub fn supported_model_types() -> impl Iterator<Item = &'static str> {
    FAMILIES.iter().map(|family| family.model_type)
}

/// The family that `name` stands for.
///
/// # Errors
/// [`ModelError::UnsupportedModel`] with the names that are.
pub(crate) fn find(
    path: &Path,
    name: &str,
    key: fn(&Family) -> &'static str,
) -> Result<&'static Family, ModelError> {
    FAMILIES.iter().find(|family| key(family) == name).ok_or_else(|| ModelError::UnsupportedModel {
        path: path.to_owned(),
        found: name.to_owned(),
        supported: FAMILIES.iter().map(key).collect::<Vec<_>>().join(", "),
    })
}
