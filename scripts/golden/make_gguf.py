"""Tiny seeded GGUF files of every family but Llama, laid out as llama.cpp's converter does, with goldens.

Writes `gguf/{architecture}-{variant}.gguf` below the test data of dflash-models. `make_llama.py` writes the Llama files.
"""

import re
import sys
from dataclasses import dataclass

import gguf
import numpy as np
import torch
from transformers import (Lfm2Config, Lfm2ForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM,
                          Qwen3MoeConfig, Qwen3MoeForCausalLM, Qwen3NextConfig, Qwen3NextForCausalLM)

import make_gemma4
import make_hybrid
import make_lfm2
import make_qwen
from common import (MODELS_DATA, golden, load_state, normal, report, rng, rounding_error, router_margin, seeded_state,
                    write_tensors)
from make_llama import GGUF_VOCAB, write_tokenizer

OUT = MODELS_DATA / "gguf"
Q = gguf.GGMLQuantizationType
FILE_TYPES = {Q.F32: gguf.LlamaFileType.ALL_F32, Q.Q8_0: gguf.LlamaFileType.MOSTLY_Q8_0}
LINEAR, FULL, SLIDING, CONV = "linear_attention", "full_attention", "sliding_attention", "conv"
# Rows of whole blocks of 32 everywhere.
SIZES = dict(vocab_size=GGUF_VOCAB, hidden_size=32, intermediate_size=32)
EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32)


# ---------------------------------------------------------------- models

def plain(config_class, model_class, rules=(), **changes):
    config = config_class(**{**make_qwen.BASE, **SIZES, "num_hidden_layers": 2, **changes},
                          attn_implementation="eager", experts_implementation="eager")
    return lambda seed: load_model(model_class(config), seed, rules)


def load_model(model, seed, rules):
    return load_state(model, seeded_state(model, seed, rules))


def recurrent(layers, value_heads, classes, **changes):
    sizes = dict(num_hidden_layers=len(layers), layer_types=layers, linear_num_value_heads=value_heads)
    return lambda seed: make_hybrid.flat_model(classes, seed, {**SIZES, **sizes, **changes})


def gemma4(**changes):
    return lambda seed: make_gemma4.seeded_model(
        {**SIZES, "vocab_size_per_layer_input": GGUF_VOCAB, "final_logit_softcapping": 30.0, **changes}, seed)


def lfm2(**changes):
    return lambda seed: load_model(Lfm2ForCausalLM(Lfm2Config(**{**make_lfm2.BASE, **SIZES, **changes})), seed,
                                   make_lfm2.RULES)


@dataclass
class Variant:
    arch: gguf.MODEL_ARCH
    model: object
    formats: tuple = (Q.F32, Q.Q8_0)
    extra_block: bool = False


A = gguf.MODEL_ARCH
NEXT = (None, None, Qwen3NextConfig, Qwen3NextForCausalLM)
VARIANTS = {
    "qwen2": Variant(A.QWEN2, plain(Qwen2Config, Qwen2ForCausalLM, tie_word_embeddings=False)),
    "qwen3": Variant(A.QWEN3, plain(Qwen3Config, Qwen3ForCausalLM, head_dim=16, tie_word_embeddings=True)),
    "qwen3moe": Variant(A.QWEN3MOE, plain(Qwen3MoeConfig, Qwen3MoeForCausalLM, make_qwen.ROUTER, head_dim=16,
                                          norm_topk_prob=True, tie_word_embeddings=True, **EXPERTS)),
    "qwen35-r2": Variant(A.QWEN35, recurrent([LINEAR, FULL], 4, make_hybrid.QWEN35)),
    # Layers that no interval describes, and a block for predicting further tokens, which the model itself skips.
    "qwen35-r3": Variant(A.QWEN35, recurrent([LINEAR, FULL, LINEAR], 6, make_hybrid.QWEN35, tie_word_embeddings=True),
                         (Q.F32,), extra_block=True),
    "qwen35moe-r2": Variant(A.QWEN35MOE, recurrent([LINEAR, FULL], 4, make_hybrid.QWEN35_MOE, **EXPERTS,
                                                   tie_word_embeddings=True, shared_expert_intermediate_size=32)),
    "qwen3next-r3": Variant(A.QWEN3NEXT, recurrent(
        [LINEAR, FULL], 6, NEXT, **EXPERTS, shared_expert_intermediate_size=32, norm_topk_prob=True,
        tie_word_embeddings=True, rope_parameters=make_hybrid.NEXT_ROPE)),
    "gemma4-ple": Variant(A.GEMMA4, gemma4(
        num_hidden_layers=3, layer_types=[SLIDING, FULL, FULL], num_kv_shared_layers=1,
        use_double_wide_mlp=True, hidden_size_per_layer_input=32)),
    "gemma4-moe": Variant(A.GEMMA4, gemma4(
        num_hidden_layers=2, layer_types=[SLIDING, FULL], num_attention_heads=4, num_key_value_heads=2,
        num_global_key_value_heads=1, attention_k_eq_v=True, enable_moe_block=True, num_experts=4, top_k_experts=2,
        moe_intermediate_size=32)),
    "lfm2": Variant(A.LFM2, lfm2(num_hidden_layers=3, layer_types=[CONV, FULL, CONV], conv_bias=False,
                                 block_auto_adjust_ff_dim=False)),
}


# ---------------------------------------------------------------- tensors

def tiled(array, config):
    """Value heads from grouped (by key head) to tiled order; `array` [heads, …]."""
    keys = config.linear_num_key_heads
    grouped = array.reshape(keys, -1, *array.shape[1:])
    return grouped.swapaxes(0, 1).reshape(array.shape)


def tiled_rows(array, config):
    heads = config.linear_num_value_heads
    return tiled(array.reshape(heads, -1), config).reshape(array.shape)


def tiled_after_keys(array, config):
    """The same for rows (or channels) where all queries and all keys come before the values."""
    keys = 2 * config.linear_num_key_heads * config.linear_key_head_dim
    return np.concatenate([array[:keys], tiled_rows(array[keys:], config)])


def tile_values(name, array, config):
    if name.endswith(("in_proj_qkv.weight", "conv1d.weight")):
        return tiled_after_keys(array, config)
    if name.endswith(("in_proj_z.weight", "in_proj_a.weight", "in_proj_b.weight", "A_log", "dt_bias")):
        return tiled_rows(array, config)
    if name.endswith("linear_attn.out_proj.weight"):
        return tiled_rows(array.T, config).T
    return array


def split_fused_projection(array, config):
    """The rows of `in_proj_qkvz`, per key head [q, k, values, gates], as [all q, all k, all values] and [all gates]."""
    keys, width = config.linear_num_key_heads, config.linear_key_head_dim
    values = config.linear_num_value_heads // keys * config.linear_value_head_dim
    parts = np.split(array.reshape(keys, -1, array.shape[1]), np.cumsum([width, width, values]), axis=1)
    q, k, v, z = (part.reshape(-1, array.shape[1]) for part in parts)
    return np.concatenate([q, k, v]), z


def renamed(name, names):
    """The GGUF name of a module or parameter, as gguf's own table has it."""
    name = name.replace("dt_bias", "dt_proj.bias")
    base, _, suffix = name.rpartition(".")
    if suffix not in ("weight", "bias"):
        base, suffix = name, "" if name.endswith("A_log") else "weight"
    if name.endswith("router.scale"):
        base, suffix = name.replace("scale", "proj"), "scale"
    elif name.endswith("per_expert_scale"):
        base, suffix = name.replace("router.per_expert_scale", "experts.down_proj"), "scale"
    found = names.get_name(base)
    assert found, name
    return f"{found}.{suffix}".rstrip(".")


def rearranged(state, config, arch, fuse_experts):
    """The tensors of the file: names and order of elements changed, values not."""
    names, out = gguf.get_tensor_name_map(arch, config.num_hidden_layers), {}
    for name, array in state.items():
        if arch in (A.QWEN35, A.QWEN35MOE):
            array = tile_values(name, array, config)
        if name.endswith("in_proj_qkvz.weight"):
            layer = name.split(".")[2]
            out[f"blk.{layer}.attn_qkv.weight"], out[f"blk.{layer}.attn_gate.weight"] = split_fused_projection(array, config)
        elif name.endswith("experts.gate_up_proj") and not fuse_experts:
            gate, up = np.split(array, 2, axis=1)
            out[renamed(name.replace("gate_up", "gate"), names)] = gate
            out[renamed(name.replace("gate_up", "up"), names)] = up
        else:
            squeezed = array.squeeze(1) if name.endswith(("conv1d.weight", "conv.conv.weight")) else array
            squeezed = squeezed.squeeze(0) if name.endswith("shared_expert_gate.weight") else squeezed
            out[renamed(name, names)] = squeezed
    return out


def stored_value(name, array, arch):
    """What the converter computes: no logarithm left in the decay, the one added to zero-centred norms."""
    if name.endswith("ssm_a"):
        return -np.exp(array)
    recurrent_family = arch in (A.QWEN35, A.QWEN35MOE, A.QWEN3NEXT)
    if recurrent_family and name.endswith("norm.weight") and not name.endswith("ssm_norm.weight"):
        return array + np.float32(1.0)
    return array


def stays_float(name, array):
    return array.ndim == 1 or re.search(r"ssm_conv1d|shortconv\.conv\.|ffn_gate_inp\.", name)


def write_file_tensors(writer, model, arch, fmt):
    """Adds the tensors; returns the float32 weights the file holds, under the model's own names."""
    state = {k: v.numpy() for k, v in make_hybrid.own_tensors(model).items()}
    ends = np.cumsum([a.size for a in state.values()])
    places = {k: np.arange(end - a.size, end).reshape(a.shape) for (k, a), end in zip(state.items(), ends)}
    flat = np.concatenate([a.ravel() for a in state.values()])
    fuse = arch == A.GEMMA4 or fmt == Q.Q8_0 and arch == A.QWEN35MOE
    sources = rearranged(places, model.config, arch, fuse)
    for name, array in rearranged(state, model.config, arch, fuse).items():
        own = Q.F32 if stays_float(name, array) else fmt
        raw = gguf.quants.quantize(np.ascontiguousarray(stored_value(name, array, arch)), own)
        writer.add_tensor(name, raw, raw_dtype=own)
        if own != Q.F32:
            flat[sources[name].ravel()] = gguf.quants.dequantize(raw, own).ravel()
    return {k: torch.from_numpy(flat[p.ravel()].reshape(p.shape)) for k, p in places.items()}


def write_extra_block(writer, model):
    """One more block after the model's own, of the kind that released files carry: attention, MLP, `nextn` tensors."""
    config, gen = model.config, rng(1)
    own = len(config.layer_types)
    attending = next(i for i, kind in enumerate(config.layer_types) if kind == FULL)
    for name, info in list(writer.tensors[0].items()):
        if name.startswith(f"blk.{attending}."):
            writer.add_tensor(name.replace(f"blk.{attending}.", f"blk.{own}."), normal(gen, info.shape, 0.1).numpy())
    for name, shape in {"eh_proj": (32, 64), "enorm": (32,), "hnorm": (32,), "shared_head_norm": (32,)}.items():
        writer.add_tensor(f"blk.{own}.nextn.{name}.weight", normal(gen, shape, 0.1).numpy())
    writer.add_nextn_predict_layers(1)


# ---------------------------------------------------------------- metadata

def write_sizes(writer, config, fmt, blocks):
    writer.add_name("tiny")
    writer.add_file_type(FILE_TYPES[fmt])
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    writer.add_vocab_size(config.vocab_size)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(blocks)
    writer.add_head_count(config.num_attention_heads)
    writer.add_layer_norm_rms_eps(getattr(config, "rms_norm_eps", None) or config.norm_eps)
    write_tokenizer(writer, config.vocab_size)


def write_attention(writer, config, arch):
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    heads = config.num_key_value_heads
    # No heads is how a layer says that it does not attend.
    writer.add_head_count_kv([heads * (kind == FULL) for kind in config.layer_types] if arch == A.LFM2 else heads)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_rope_dimension_count(int(width * config.rope_parameters.get("partial_rotary_factor", 1.0)))
    writer.add_feed_forward_length(config.intermediate_size)
    if width != config.hidden_size // config.num_attention_heads:
        writer.add_key_length(width)
        writer.add_value_length(width)


def write_experts(writer, config):
    writer.add_expert_count(config.num_experts)
    writer.add_expert_used_count(config.num_experts_per_tok)
    writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    if hasattr(config, "shared_expert_intermediate_size"):
        writer.add_expert_shared_feed_forward_length(config.shared_expert_intermediate_size)


def write_recurrence(writer, config, arch):
    writer.add_ssm_conv_kernel(config.linear_conv_kernel_dim)
    writer.add_ssm_state_size(config.linear_key_head_dim)
    writer.add_ssm_group_count(config.linear_num_key_heads)
    writer.add_ssm_time_step_rank(config.linear_num_value_heads)
    writer.add_ssm_inner_size(config.linear_num_value_heads * config.linear_value_head_dim)
    if config.layer_types[-1] == FULL:
        writer.add_full_attention_interval(len(config.layer_types))
    else:
        kinds = [kind == LINEAR for kind in config.layer_types] + [False]
        writer.add_array(f"{writer.arch}.attention.recurrent_layers", kinds)
    if arch != A.QWEN3NEXT:
        writer.add_rope_dimension_sections([*config.rope_parameters["mrope_section"], 0])


def write_gemma4(writer, config):
    sliding = [kind == SLIDING for kind in config.layer_types]
    full, local = config.per_layer_config[FULL], config.per_layer_config[SLIDING]
    writer.add_shared_kv_layers(config.num_kv_shared_layers)
    writer.add_embedding_length_per_layer_input(config.hidden_size_per_layer_input)
    writer.add_sliding_window(config.sliding_window)
    writer.add_sliding_window_pattern(sliding)
    writer.add_final_logit_softcapping(config.final_logit_softcapping)
    for width, add in ((full.head_dim, (writer.add_key_length, writer.add_value_length, writer.add_rope_dimension_count)),
                       (local.head_dim, (writer.add_key_length_swa, writer.add_value_length_swa,
                                          writer.add_rope_dimension_count_swa))):
        for write in add:
            write(width)
    writer.add_rope_freq_base(config.rope_parameters[FULL]["rope_theta"])
    writer.add_rope_freq_base_swa(config.rope_parameters[SLIDING]["rope_theta"])
    heads = [(local if s else full).num_key_value_heads for s in sliding]
    writer.add_head_count_kv(heads if config.attention_k_eq_v else local.num_key_value_heads)
    wide = config.num_hidden_layers - config.num_kv_shared_layers if config.use_double_wide_mlp else len(sliding)
    widths = [config.intermediate_size * (1 + (layer >= wide)) for layer in range(len(sliding))]
    writer.add_feed_forward_length(widths if config.use_double_wide_mlp else config.intermediate_size)
    if config.enable_moe_block:
        writer.add_expert_count(config.num_experts)
        writer.add_expert_used_count(config.top_k_experts)
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    # The rotated pairs keep their frequency, the others are divided until they stand still.
    pairs = full.head_dim // 2
    rotated = int(config.rope_parameters[FULL]["partial_rotary_factor"] * pairs)
    writer.add_tensor("rope_freqs.weight", np.array([1.0] * rotated + [1e30] * (pairs - rotated), np.float32))


def write_metadata(writer, config, arch, fmt, extra_block):
    write_sizes(writer, config, fmt, config.num_hidden_layers + extra_block)
    if arch == A.GEMMA4:
        write_gemma4(writer, config)
        return
    write_attention(writer, config, arch)
    if arch == A.LFM2:
        writer.add_shortconv_l_cache(config.conv_L_cache)
    if hasattr(config, "num_experts_per_tok"):
        write_experts(writer, config)
    if hasattr(config, "linear_num_key_heads"):
        write_recurrence(writer, config, arch)


# ---------------------------------------------------------------- files

def make(name, seed):
    variant = VARIANTS[name]
    model = variant.model(seed)
    original = make_hybrid.own_tensors(model)
    for fmt in variant.formats:
        path = OUT / f"{name}-{fmt.name.lower()}.gguf"
        writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[variant.arch])
        write_metadata(writer, model.config, variant.arch, fmt, variant.extra_block)
        load_state(model, original)
        held = write_file_tensors(writer, model, variant.arch, fmt)
        if variant.extra_block:
            write_extra_block(writer, model)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        load_state(model, held)
        values = golden(model, (1, 3, 12), seed + 1, with_taps=fmt == Q.F32)
        write_tensors(path.with_suffix(".golden.safetensors"), values)
        margin = router_margin(model, values)
        print(f"{path.name}: logit std {values['2.logits'].std():.2f}, router margin "
              f"{'-' if margin is None else f'{margin:.1e}'}, rounding {rounding_error(model, values):.1e}")


if __name__ == "__main__":
    for number, variant in enumerate(VARIANTS):
        if not sys.argv[1:] or variant in sys.argv[1:]:
            make(variant, 5000 + 10 * number)
    report(OUT)
