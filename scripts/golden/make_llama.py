"""Tiny seeded Llama checkpoints (HF layout and GGUF) with logits and taps computed by transformers.

Writes `llama/` and `gguf/` below the test data of dflash-models.
"""

import json
import struct

import gguf
import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from common import (DTYPES, MODELS_DATA, fresh_dir, golden, half_keys, normal, old_schema, report, rng, run,
                    write_json, write_tensors)

# ---------------------------------------------------------------- models

SMALL = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, vocab_size=96)
WIDE = dict(hidden_size=64, intermediate_size=32, num_hidden_layers=4, num_attention_heads=4,
            num_key_value_heads=2, vocab_size=112)
# Original length 32: of the eight pairs of a 16-wide head some are left alone, some blended, some divided.
LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0,
              high_freq_factor=4.0, original_max_position_embeddings=32)

HF_VARIANTS = {
    # name: (dimensions, config changes, stored dtype, shard size, seed)
    "tied": (WIDE, dict(tie_word_embeddings=True), "float32", None, 11),
    "untied": (SMALL, dict(tie_word_embeddings=False, num_attention_heads=2, num_key_value_heads=1, head_dim=32), "float32", None, 12),
    "rope-linear": (SMALL, dict(tie_word_embeddings=True, rope_parameters=dict(
        rope_type="linear", rope_theta=5000.0, factor=4.0)), "float32", None, 13),
    "rope-llama3": (SMALL, dict(tie_word_embeddings=True, head_dim=16, rope_parameters=LLAMA3), "float32", None, 14),
    "bf16": (SMALL, dict(tie_word_embeddings=True, num_key_value_heads=4), "bfloat16", None, 15),
    "f16": (SMALL, dict(tie_word_embeddings=False, num_key_value_heads=1), "float16", None, 16),
    "sharded": (SMALL, dict(tie_word_embeddings=False), "bfloat16", "20KB", 17),
}


def llama_config(dims, changes):
    base = dict(rms_norm_eps=1e-5, max_position_embeddings=512, bos_token_id=1, eos_token_id=2, pad_token_id=None,
                rope_parameters=dict(rope_type="default", rope_theta=10000.0), attn_implementation="eager")
    return LlamaConfig(**{**base, **dims, **changes})


def seeded_model(config, seed):
    """Weights large enough that logits are spread, small enough that rounding stays rounding."""
    gen = rng(seed)
    model = LlamaForCausalLM(config).eval()
    half_keys(model)
    state = {}
    for name, tensor in model.state_dict().items():
        if name.endswith("norm.weight"):
            state[name] = normal(gen, tensor.shape, 0.15, 1.0)
        elif name.endswith(("embed_tokens.weight", "lm_head.weight")):
            state[name] = normal(gen, tensor.shape, 0.25)
        else:
            state[name] = normal(gen, tensor.shape, 0.09)
    if config.tie_word_embeddings:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict(state)
    return model


def rounded(model, dtype):
    """The same model with every weight rounded to `dtype` and computing in float32."""
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(p.to(dtype).to(torch.float32))
    return model


# ---------------------------------------------------------------- HF layout

def write_hf(name, dims, changes, dtype, shard, seed):
    out = fresh_dir(MODELS_DATA / "llama" / name)
    model = rounded(seeded_model(llama_config(dims, changes), seed), DTYPES[dtype])
    model.to(DTYPES[dtype]).save_pretrained(out, **(dict(max_shard_size=shard) if shard else {}))
    (out / "generation_config.json").unlink(missing_ok=True)
    for file in out.glob("*.safetensors"):
        file.chmod(0o644)
    config = json.loads((out / "config.json").read_text())
    write_json(out / "config.v4.json", old_schema(config))

    stored = LlamaForCausalLM.from_pretrained(out, dtype=torch.float32, attn_implementation="eager").eval()
    values = golden(stored, (1, 3, 70), seed + 100)
    write_tensors(out / "golden.safetensors", values)

    old = LlamaConfig.from_dict(json.loads((out / "config.v4.json").read_text()), attn_implementation="eager")
    twin = LlamaForCausalLM(old).eval()
    twin.load_state_dict(stored.state_dict())
    assert torch.equal(run(twin, values["2.ids"].tolist())[0], values["2.logits"]), name
    logits = values["2.logits"]
    top = logits.topk(2).values
    print(f"{name}: logit std {logits.std():.2f}, smallest top-2 margin {(top[:, 0] - top[:, 1]).min():.4f}, "
          f"distinct choices {logits.argmax(-1).unique().numel()} of 70")


# ---------------------------------------------------------------- GGUF

GGUF_VOCAB = 288
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = ["Ġ t", "h e", "i n", "r e", "o n", "e r", "Ġ a", "Ġt he", "a t", "o u", "i s", "Ġ w", "e n", "l l",
          "in g", "Ġa n", "Ġan d", "Ġ is"]
TEMPLATE = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] "
            "+ '<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
Q = gguf.GGMLQuantizationType
G_SMALL = {**SMALL, "vocab_size": GGUF_VOCAB}
G_WIDE = {**SMALL, "hidden_size": 64, "vocab_size": GGUF_VOCAB}
FILE_TYPES = {Q.F32: gguf.LlamaFileType.ALL_F32, Q.F16: gguf.LlamaFileType.MOSTLY_F16,
              Q.BF16: gguf.LlamaFileType.MOSTLY_BF16, Q.Q8_0: gguf.LlamaFileType.MOSTLY_Q8_0,
              Q.Q4_0: gguf.LlamaFileType.MOSTLY_Q4_0, Q.Q4_1: gguf.LlamaFileType.MOSTLY_Q4_1}

GGUF_VARIANTS = {
    # name: (dimensions, config changes, format of layer matrices, format of embedding and head, version)
    "f32": (G_SMALL, {}, Q.F32, Q.F32, 3),
    "f16": (G_SMALL, {}, Q.F16, Q.F16, 3),
    "bf16": (G_SMALL, {}, Q.BF16, Q.BF16, 3),
    "f16-v2": (G_SMALL, {}, Q.F16, Q.F16, 2),  # the bytes of f16 but for the version, so no golden of its own
    "f16-llama3": (G_SMALL, dict(head_dim=16, rope_parameters=LLAMA3), Q.F16, Q.F16, 3),
    "q8_0": (G_WIDE, {}, Q.Q8_0, Q.Q8_0, 3),
    "q4_0": (G_WIDE, {}, Q.Q4_0, Q.Q4_0, 3),
    "q4_1": (G_WIDE, {}, Q.Q4_1, Q.Q4_1, 3),
    "mixed": (G_WIDE, {}, Q.Q4_1, Q.Q8_0, 3),
    "mixed-untied": (G_SMALL, dict(tie_word_embeddings=False), Q.Q4_0, Q.Q8_0, 3),
}


def byte_alphabet():
    """The 256 stand-in characters of byte-level BPE, in the order vocabularies list them."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [b for b in range(256) if b not in shown]
    return [chr(b) for b in shown] + [chr(256 + i) for i in range(len(hidden))]


def interleave(weight, heads):
    """Row order of llama.cpp's converter: the two halves of a head become even and odd rows."""
    rows, cols = weight.shape
    half = rows // heads // 2
    return weight.reshape(heads, 2, half, cols).swapaxes(1, 2).reshape(rows, cols)


def deinterleave(weight, heads):
    rows, cols = weight.shape
    half = rows // heads // 2
    return weight.reshape(heads, half, 2, cols).swapaxes(1, 2).reshape(rows, cols)


GGUF_NAMES = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
              "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
              "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}


def gguf_name(name):
    top = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
           "lm_head.weight": "output.weight"}
    if name in top:
        return top[name]
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}.{GGUF_NAMES[rest.removesuffix('.weight')]}.weight"


def llama3_divisors(config):
    """Per pair: what its frequency is divided by (the content of `rope_freqs.weight`)."""
    rope = config.rope_parameters
    pairs = np.arange(0, config.head_dim, 2, dtype=np.float64)
    wavelength = 2 * np.pi * rope["rope_theta"] ** (pairs / config.head_dim)
    low, high, original = rope["low_freq_factor"], rope["high_freq_factor"], rope["original_max_position_embeddings"]
    blend = (original / wavelength - low) / (high - low)
    blended = 1.0 / ((1 - blend) / rope["factor"] + blend)
    out = np.where(wavelength < original / high, 1.0, np.where(wavelength > original / low, rope["factor"], blended))
    return out.astype(np.float32)


def write_tokenizer(writer, vocab_size):
    """A byte-level vocabulary of 277 tokens, filled up with unused ones."""
    tokens = SPECIALS + byte_alphabet() + ["".join(m.split(" ")) for m in MERGES]
    kinds = [gguf.TokenType.CONTROL] * len(SPECIALS) + [gguf.TokenType.NORMAL] * (len(tokens) - len(SPECIALS))
    while len(tokens) < vocab_size:
        tokens.append(f"[PAD{len(tokens)}]")
        kinds.append(gguf.TokenType.UNUSED)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)


def write_metadata(writer, config, layer_format):
    writer.add_name("tiny llama")
    writer.add_file_type(FILE_TYPES[layer_format])
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    writer.add_vocab_size(config.vocab_size)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_rope_dimension_count(config.head_dim)
    if config.head_dim != config.hidden_size // config.num_attention_heads:
        writer.add_key_length(config.head_dim)
        writer.add_value_length(config.head_dim)
    write_tokenizer(writer, config.vocab_size)


def write_gguf(path, model, layer_format, table_format, version):
    """Writes the file and returns the float32 weights it holds, in HF names and HF row order."""
    config = model.config
    writer = gguf.GGUFWriter(path, "llama")
    write_metadata(writer, config, layer_format)
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    held = {}
    if config.rope_parameters["rope_type"] == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_divisors(config))
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        array = tensor.numpy()
        permuted = next((heads[k] for k in heads if k in name), None)
        if permuted:
            array = interleave(array, permuted)
        fmt = Q.F32 if array.ndim == 1 else table_format if "embed" in name or "lm_head" in name else layer_format
        raw = gguf.quants.quantize(np.ascontiguousarray(array), fmt)
        writer.add_tensor(gguf_name(name), raw, raw_dtype=fmt)
        value = gguf.quants.dequantize(raw, fmt).astype(np.float32).reshape(array.shape)
        held[name] = torch.from_numpy((deinterleave(value, permuted) if permuted else value).copy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    if version != 3:
        with open(path, "r+b") as file:
            file.seek(4)
            file.write(struct.pack("<I", version))
    if config.tie_word_embeddings:
        held["lm_head.weight"] = held["model.embed_tokens.weight"]
    return held


def make_gguf():
    out = MODELS_DATA / "gguf"  # shared with the files of the other families
    out.mkdir(exist_ok=True)
    for n, (name, (dims, changes, layer_format, table_format, version)) in enumerate(GGUF_VARIANTS.items()):
        config = llama_config(dims, {"tie_word_embeddings": True, **changes})
        model = seeded_model(config, 31 if not changes and dims is G_SMALL else 32 + n)
        held = write_gguf(out / f"{name}.gguf", model, layer_format, table_format, version)
        model.load_state_dict(held)
        if version == 3:
            # Taps only for the float file: the other files share its graph.
            write_tensors(out / f"{name}.golden.safetensors", golden(model, (1, 3, 12), 300 + n, with_taps=name == "f32"))
        reader = gguf.GGUFReader(out / f"{name}.gguf")
        assert len(reader.tensors) == len(held) - int(config.tie_word_embeddings) + int("llama3" in name)
    print("gguf: ok")


if __name__ == "__main__":
    for variant, args in HF_VARIANTS.items():
        write_hf(variant, *args)
    make_gguf()
    report(MODELS_DATA / "llama")
    report(MODELS_DATA / "gguf")
