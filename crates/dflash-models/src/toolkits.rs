use crate::ModelError;
use crate::json::Keys;

/// Ways to quantise that are not read, by the names they have in `quant_method` or `mode`, with what to
/// take instead.
const OTHERS: &[(&str, &str)] = &[
    ("aqlm", "AQLM codebooks are not read; take the unquantised, MLX or GGUF release"),
    ("auto-round", "AutoRound packing is not read; take the unquantised, MLX or GGUF release"),
    ("autoround", "AutoRound packing is not read; take the unquantised, MLX or GGUF release"),
    ("awq", "AWQ packing is not read; take the unquantised, MLX or GGUF release"),
    ("bitnet", "ternary BitNet weights are not read; take a release in bf16 or GGUF"),
    ("bitsandbytes", "bitsandbytes packing is not read; take the unquantised, MLX or GGUF release"),
    (
        "compressed-tensors",
        "compressed-tensors packing is not read; take the unquantised, MLX or GGUF release",
    ),
    ("eetq", "EETQ packing is not read; take the unquantised, MLX or GGUF release"),
    ("fbgemm_fp8", "8-bit floats are not read; take a release in bf16, MLX or GGUF"),
    ("fp8", "8-bit floats are not read; take a release in bf16, MLX or GGUF"),
    ("gptq", "GPTQ packing is not read; take the unquantised, MLX or GGUF release"),
    ("higgs", "HIGGS packing is not read; take the unquantised, MLX or GGUF release"),
    ("hqq", "HQQ packing is not read; take the unquantised, MLX or GGUF release"),
    ("modelopt", "ModelOpt packing (fp8, nvfp4) is not read; take a release in bf16, MLX or GGUF"),
    ("mxfp4", "4-bit floats are not read; take an affine MLX or a GGUF release"),
    ("mxfp8", "8-bit floats are not read; take an affine MLX or a GGUF release"),
    ("nvfp4", "4-bit floats are not read; take an affine MLX or a GGUF release"),
    ("quanto", "Quanto packing is not read; take the unquantised, MLX or GGUF release"),
    ("quark", "Quark packing is not read; take the unquantised, MLX or GGUF release"),
    ("spqr", "SpQR packing is not read; take the unquantised, MLX or GGUF release"),
    ("torchao", "torchao packing is not read; take the unquantised, MLX or GGUF release"),
    ("vptq", "VPTQ codebooks are not read; take the unquantised, MLX or GGUF release"),
];

const UNKNOWN: &str = "only affine MLX quantization and GGUF are read";

/// Refuses what another toolkit, or another mode of MLX, has quantised.
///
/// # Errors
/// [`ModelError::Refused`] with the method and what to take instead.
pub(crate) fn refuse_others(section: &Keys<'_>) -> Result<(), ModelError> {
    for key in ["quant_method", "quant_algo"] {
        if section.get(key).is_some() {
            return Err(section.refused(key, instead(section, key)));
        }
    }
    refuse_modes(section)
}

/// Refuses modes other than affine, in the section or in one of its overrides.
///
/// # Errors
/// As [`refuse_others`].
pub(crate) fn refuse_modes(section: &Keys<'_>) -> Result<(), ModelError> {
    match section.text("mode")? {
        None | Some("affine") => Ok(()),
        Some(_) => Err(section.refused("mode", instead(section, "mode"))),
    }
}

fn instead(section: &Keys<'_>, key: &str) -> &'static str {
    let name = section.get(key).and_then(|value| value.as_str()).unwrap_or_default().to_ascii_lowercase();
    OTHERS.iter().find(|(other, _)| *other == name).map_or(UNKNOWN, |(_, instead)| instead)
}
