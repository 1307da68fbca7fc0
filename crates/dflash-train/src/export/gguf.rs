use std::path::Path;

use dflash_models::{GgufVocabulary, Target};
use half::f16;

use super::GgufFormat;
use super::check::check_target;
use super::container::{Tensor, Value, file};
use super::json::MADE_BY;
use super::staged::GGUF;
use super::stored::write_through;
use crate::{DraftShape, DraftWeights, Matrix, TargetTables, TrainError};

/// Numbers of the tensor types.
const F32: u32 = 0;
const F16: u32 = 1;
const Q8_0: u32 = 8;
const I64: u32 = 27;
/// Elements of a Q8_0 block.
const BLOCK: usize = 32;
/// Of the block formats.
const QUANTIZATION_VERSION: u32 = 2;

/// What llama.cpp calls the tensors outside of layers.
const OUTSIDE: &[(&str, &str)] = &[
    ("fc", "fc"),
    ("hidden_norm", "enc.output_norm"),
    ("norm", "output_norm"),
    ("markov_head.markov_w1", "markov_w1"),
    ("markov_head.markov_w2", "markov_w2"),
];
/// And those of a layer.
const INSIDE: &[(&str, &str)] = &[
    ("input_layernorm", "attn_norm"),
    ("post_attention_layernorm", "ffn_norm"),
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.o_proj", "attn_output"),
    ("self_attn.q_norm", "attn_q_norm"),
    ("self_attn.k_norm", "attn_k_norm"),
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.up_proj", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
];

/// Writes the file.
pub(super) fn write(
    dir: &Path,
    shape: &DraftShape,
    weights: &DraftWeights,
    format: GgufFormat,
    target: &dyn Target,
    vocabulary: &GgufVocabulary,
) -> Result<(), TrainError> {
    check_target(shape, target)?;
    check_vocabulary(shape, vocabulary)?;
    let mut tensors =
        weights.iter().map(|(name, matrix)| tensor(gguf_name(name), matrix, format)).collect::<Vec<_>>();
    if let Some(ids) = &shape.vocab {
        let head = TargetTables::read(target, &[], ids).head;
        tensors.push(tensor("output.weight".into(), &head, format));
        tensors.push(ids_of_rows(ids));
    }
    let mut keys = draft_keys(shape, format);
    keys.extend(tokenizer_keys(shape, vocabulary));
    write_through(&dir.join(GGUF), &file(&keys, &tensors))
}

fn check_vocabulary(shape: &DraftShape, vocabulary: &GgufVocabulary) -> Result<(), TrainError> {
    let (tokens, least) = (vocabulary.tokens.len(), shape.target_vocab.max(shape.mask_id as usize + 1));
    if tokens < least {
        let what =
            format!("the tokenizer has {tokens} tokens, too few for the draft's ids up to {}", least - 1);
        return Err(TrainError::Refused(what));
    }
    Ok(())
}

/// What llama.cpp calls a tensor.
fn gguf_name(name: &str) -> String {
    let module = name.strip_suffix(".weight").unwrap_or(name);
    let find = |table: &[(&str, &'static str)], name| {
        table.iter().find(|(from, _)| *from == name).map(|(_, to)| *to)
    };
    let inside = || {
        let (layer, rest) = module.strip_prefix("layers.")?.split_once('.')?;
        Some(format!("blk.{layer}.{}.weight", find(INSIDE, rest)?))
    };
    let outside = find(OUTSIDE, module).map(|name| format!("{name}.weight"));
    outside.or_else(inside).unwrap_or_else(|| name.to_owned())
}

fn tensor(name: String, matrix: &Matrix, format: GgufFormat) -> Tensor {
    let cols = matrix.shape.last().copied().unwrap_or(1);
    let (kind, bytes) = match format {
        _ if matrix.shape.len() == 1 => (F32, bytemuck::cast_slice(&matrix.values).to_vec()),
        GgufFormat::F32 => (F32, bytemuck::cast_slice(&matrix.values).to_vec()),
        GgufFormat::Q8_0 if cols.is_multiple_of(BLOCK) => (Q8_0, q8_0(&matrix.values)),
        GgufFormat::F16 | GgufFormat::Q8_0 => {
            (F16, matrix.values.iter().flat_map(|&value| f16::from_f32(value).to_le_bytes()).collect())
        }
    };
    Tensor { name, shape: matrix.shape.clone(), kind, bytes }
}

/// Blocks of a scale in f16 and 32 signed bytes; the largest value of a block becomes 127.
fn q8_0(values: &[f32]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(values.len() / BLOCK * (BLOCK + 2));
    for block in values.chunks_exact(BLOCK) {
        let scale = block.iter().fold(0f32, |most, value| most.max(value.abs())) / 127.0;
        let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
        bytes.extend(f16::from_f32(scale).to_le_bytes());
        bytes.extend(block.iter().map(|value| (value * inverse).round() as i8 as u8));
    }
    bytes
}

/// `d2t`: here the target ids themselves.
fn ids_of_rows(ids: &[u32]) -> Tensor {
    let bytes = ids.iter().flat_map(|&id| i64::from(id).to_le_bytes()).collect();
    Tensor { name: "d2t".into(), shape: vec![ids.len()], kind: I64, bytes }
}

/// The keys of llama.cpp's converter.
fn draft_keys(shape: &DraftShape, format: GgufFormat) -> Vec<(String, Value<'static>)> {
    let general = [
        ("architecture", Value::Text("dflash")),
        ("description", Value::Text(MADE_BY)),
        ("file_type", Value::U32(if format == GgufFormat::Q8_0 { 7 } else { format as u32 })),
        ("quantization_version", Value::U32(QUANTIZATION_VERSION)),
    ];
    let size = |size: usize| Value::U32(size as u32);
    let mut own = vec![
        ("context_length", size(shape.context)),
        ("embedding_length", size(shape.hidden)),
        ("block_count", size(shape.layers)),
        ("feed_forward_length", size(shape.ffn)),
        ("attention.head_count", size(shape.heads)),
        ("attention.head_count_kv", size(shape.kv_heads)),
        ("attention.key_length", size(shape.head_dim)),
        ("attention.value_length", size(shape.head_dim)),
        ("attention.layer_norm_rms_epsilon", Value::F32(shape.rms_norm_eps)),
        ("attention.causal", Value::Flag(false)),
        ("rope.freq_base", Value::F32(shape.rope_theta as f32)),
        ("block_size", size(shape.block)),
        // Layers are named by their input, so that 1 is the output of the first one.
        ("target_layers", Value::Integers(shape.taps.iter().map(|&tap| tap as i32 + 1).collect())),
    ];
    if shape.markov_rank > 0 {
        own.push(("sample_from_anchor", Value::Flag(false)));
        own.push(("has_confidence_head", Value::Flag(false)));
    }
    let general = general.into_iter().map(|(key, value)| (format!("general.{key}"), value));
    general.chain(own.into_iter().map(|(key, value)| (format!("dflash.{key}"), value))).collect()
}

/// The target's tokenizer, with the mask among its special tokens.
fn tokenizer_keys<'a>(shape: &DraftShape, vocabulary: &'a GgufVocabulary) -> Vec<(String, Value<'a>)> {
    let types = vocabulary.token_types.iter().map(|&kind| kind as i32).collect::<Vec<_>>();
    let keys = [
        ("model", Some(Value::Text(&vocabulary.model))),
        ("pre", vocabulary.pre.as_deref().map(Value::Text)),
        ("tokens", Some(Value::Texts(&vocabulary.tokens))),
        ("token_type", Some(Value::Integers(types)).filter(|_| !vocabulary.token_types.is_empty())),
        ("scores", Some(Value::Floats(&vocabulary.scores)).filter(|_| !vocabulary.scores.is_empty())),
        ("merges", Some(Value::Texts(&vocabulary.merges)).filter(|_| !vocabulary.merges.is_empty())),
        ("bos_token_id", vocabulary.bos_id.map(Value::U32)),
        ("eos_token_id", vocabulary.eos_id.map(Value::U32)),
        ("eot_token_id", vocabulary.eot_id.map(Value::U32)),
        ("eom_token_id", vocabulary.eom_id.map(Value::U32)),
        ("unknown_token_id", vocabulary.unk_id.map(Value::U32)),
        ("padding_token_id", vocabulary.pad_id.map(Value::U32)),
        ("mask_token_id", Some(Value::U32(shape.mask_id))),
        ("add_bos_token", vocabulary.add_bos.map(Value::Flag)),
        ("add_eos_token", vocabulary.add_eos.map(Value::Flag)),
        ("add_space_prefix", vocabulary.add_space_prefix.map(Value::Flag)),
    ];
    keys.into_iter().filter_map(|(key, value)| Some((format!("tokenizer.ggml.{key}"), value?))).collect()
}

#[cfg(test)]
mod tests {
    use super::{gguf_name, q8_0};

    #[test]
    fn names_are_those_of_llama_cpp() {
        for (name, gguf) in [
            ("fc.weight", "fc.weight"),
            ("hidden_norm.weight", "enc.output_norm.weight"),
            ("norm.weight", "output_norm.weight"),
            ("layers.12.self_attn.k_norm.weight", "blk.12.attn_k_norm.weight"),
            ("layers.0.post_attention_layernorm.weight", "blk.0.ffn_norm.weight"),
            ("markov_head.markov_w1.weight", "markov_w1.weight"),
        ] {
            assert_eq!(gguf_name(name), gguf);
        }
    }

    /// 0 to 31, negative: -31 becomes -127, and the scale 31/127 in f16 is 0x33d0 (0.24414).
    #[test]
    fn a_block_has_a_scale_and_signed_bytes() {
        let block = (0..32).map(|i| -(i as f32)).collect::<Vec<_>>();
        let bytes = q8_0(&block);
        assert_eq!(bytes.len(), 34);
        assert_eq!(u16::from_le_bytes([bytes[0], bytes[1]]), half::f16::from_f32(31.0 / 127.0).to_bits());
        assert_eq!([bytes[2], bytes[3], bytes[33]].map(|byte| byte as i8), [0, -4, -127]);
        assert_eq!(q8_0(&[0.0; 32]), [0; 34]);
    }
}
