"""GGUF twins of checkpoints that other scripts made: drafts as llama.cpp's converter writes them, and a split model.

Writes `draft/gguf/` and `gguf/split/` below the test data of dflash-models. Needs `gguf/` (make_llama.py) and `draft/`
(make_draft.py). A float twin holds the very values of its original, so it shares that one's golden.
"""

import json

import gguf
import numpy as np
import torch
from safetensors.torch import load_file

from common import MODELS_DATA, fresh_dir, report, write_tensors
from make_draft import TARGET, read_config, run_cycles
from make_llama import FILE_TYPES, GGUF_NAMES, Q

DRAFTS, OUT = MODELS_DATA / "draft", MODELS_DATA / "draft" / "gguf"
SPLIT_OF, SPLIT_OUT = MODELS_DATA / "gguf" / "mixed-untied.gguf", MODELS_DATA / "gguf" / "split"
FLOATS = {torch.float32: Q.F32, torch.float16: Q.F16, torch.bfloat16: Q.BF16}
NAMES = {**GGUF_NAMES, "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm"}
TOP = {"fc": "fc", "hidden_norm": "enc.output_norm", "norm": "output_norm", "embed_tokens": "token_embd",
       "lm_head": "output"}

TWINS = {
    # name: (original, its config file, format of the matrices or None for that of the original)
    "flat-f32": ("flat-f32", "config.json", None),
    "nested-f16": ("nested-f16", "config.json", None),
    "sliding": ("sliding", "config.json", None),
    "sliding-noncausal": ("sliding", "config.noncausal.json", None),
    "yarn": ("yarn", "config.json", None),
    "speculators-own": ("speculators-own", "config.json", None),
    "q8_0": ("flat-f32", "config.json", Q.Q8_0),
    "q4_0": ("flat-f32", "config.json", Q.Q4_0),
}


def gguf_name(name):
    path = name.removesuffix(".weight")
    if path in TOP:
        return f"{TOP[path]}.weight"
    _, layer, rest = path.split(".", 2)
    return f"blk.{layer}.{NAMES[rest]}.weight"


def write_metadata(writer, raw, fmt):
    """The keys of llama.cpp's converter: layers are named by their input, the mask stands with the tokenizer."""
    p, body = read_config(raw), raw.get("transformer_layer_config", raw)
    writer.add_name("tiny draft")
    writer.add_file_type(FILE_TYPES[fmt])
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    writer.add_context_length(body["max_position_embeddings"])
    writer.add_embedding_length(body["hidden_size"])
    writer.add_block_count(p.layers)
    writer.add_feed_forward_length(body["intermediate_size"])
    writer.add_head_count(p.heads)
    writer.add_head_count_kv(p.kv_heads)
    writer.add_key_length(p.head_dim)
    writer.add_value_length(p.head_dim)
    writer.add_layer_norm_rms_eps(p.eps)
    writer.add_rope_freq_base(p.rope["rope_theta"])
    if p.rope["rope_type"] == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(p.rope["factor"])
        writer.add_rope_scaling_orig_ctx_len(p.rope["original_max_position_embeddings"])
    if p.window:
        writer.add_sliding_window(p.window)
        writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in p.layer_types])
    if raw.get("dflash_config", {}).get("causal") is not None:
        writer.add_causal_attention(raw["dflash_config"]["causal"])
    writer.add_uint32("dflash.block_size", p.block)
    writer.add_array("dflash.target_layers", [tap + 1 for tap in p.taps])
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([f"token{i}" for i in range(body["vocab_size"])])
    writer.add_mask_token_id(p.mask)


def add_tensor(writer, name, tensor, fmt):
    """Writes a tensor; returns the float32 values that the file holds."""
    # The converter stores gains in F32.
    kind = Q.F32 if tensor.ndim == 1 else fmt or FLOATS[tensor.dtype]
    raw = gguf.quants.quantize(np.ascontiguousarray(tensor.float().numpy()), kind)
    writer.add_tensor(gguf_name(name), raw, raw_dtype=kind)
    values = gguf.quants.dequantize(raw, kind).astype(np.float32).reshape(tensor.shape)
    return torch.from_numpy(values.copy())


def write_twin(name, original, config, fmt):
    raw = json.loads((DRAFTS / original / config).read_text())
    stored = load_file(DRAFTS / original / "model.safetensors")
    writer = gguf.GGUFWriter(OUT / f"{name}.gguf", "dflash")
    write_metadata(writer, raw, fmt or FLOATS[stored["fc.weight"].dtype])
    held = {}
    for key, tensor in stored.items():
        if key == "d2t":
            # In GGUF the target ids themselves, not their distances.
            writer.add_tensor("d2t", (tensor + torch.arange(len(tensor))).numpy().astype(np.int64))
        elif key != "t2d":
            held[key] = add_tensor(writer, key, tensor, fmt)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    if fmt is None:
        assert all(torch.equal(held[key], stored[key].float()) for key in held)
    else:
        table = load_file(TARGET / "model.safetensors")["model.embed_tokens.weight"]
        inputs = load_file(DRAFTS / "inputs.safetensors")
        write_tensors(OUT / f"{name}.golden.safetensors", run_cycles(raw, held, inputs, table, table, None))


def write_split():
    """The same model in parts, cut by the split writer of gguf-py."""
    fresh_dir(SPLIT_OUT)
    reader = gguf.GGUFReader(SPLIT_OF)
    writer = gguf.GGUFWriter(SPLIT_OUT / "model.gguf", "llama", split_max_tensors=8)
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        kinds = field.types
        writer.add_key_value(field.name, field.contents(), kinds[0], sub_type=kinds[-1] if len(kinds) > 1 else None)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    fresh_dir(OUT)
    for twin, args in TWINS.items():
        write_twin(twin, *args)
    write_split()
    report(OUT)
    report(SPLIT_OUT)
