"""Tiny Llama GGUF files quantised by llama.cpp itself, with goldens from the dequantised weights.

Writes `gguf/{format}.gguf` below the test data of dflash-models; wants `llama-cpp-python` 0.3.36.
"""

import tempfile
from collections import Counter
from pathlib import Path

import gguf
import llama_cpp
import torch

from common import MODELS_DATA, golden, load_state, normal, seeded_state, write_tensors
from make_llama import GGUF_NAMES, GGUF_VOCAB, Q, LlamaForCausalLM, deinterleave, llama_config, write_gguf

OUT = MODELS_DATA / "gguf"
TINY = dict(num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=1, vocab_size=GGUF_VOCAB,
            tie_word_embeddings=True)
# Rows of whole blocks of 256, or of 32.
SUPER = dict(hidden_size=256, intermediate_size=256, head_dim=64)
SMALL = dict(hidden_size=64, intermediate_size=64, head_dim=16)
TABLE = [(r"embed_tokens\.weight$", lambda gen, shape: normal(gen, shape, 2.0 / shape[-1] ** 0.5))]
FORMATS = {
    "q2_k": (SUPER, llama_cpp.LLAMA_FTYPE_MOSTLY_Q2_K),
    "q3_k_l": (SUPER, llama_cpp.LLAMA_FTYPE_MOSTLY_Q3_K_L),
    "q4_k_m": (SUPER, llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_K_M),
    "q5_0": (SMALL, llama_cpp.LLAMA_FTYPE_MOSTLY_Q5_0),
    "q5_1": (SMALL, llama_cpp.LLAMA_FTYPE_MOSTLY_Q5_1),
}


def quantize(source, target, file_type):
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype, params.nthread = file_type, 1
    assert llama_cpp.llama_model_quantize(str(source).encode(), str(target).encode(), params) == 0


def weights_of(path, config):
    """The float32 weights of the file in HF names and row order, and how many tensors have which format."""
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    layer = {f"blk.0.{theirs}.weight": f"model.layers.0.{ours}.weight" for ours, theirs in GGUF_NAMES.items()}
    names = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight", **layer}
    state, formats = {}, Counter()
    for tensor in gguf.GGUFReader(path).tensors:
        array = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        name = names[tensor.name]
        permuted = next((heads[k] for k in heads if k in name), None)
        state[name] = torch.from_numpy((deinterleave(array, permuted) if permuted else array).copy())
        formats[tensor.tensor_type.name] += 1
    return state, formats


def make(name, seed):
    sizes, file_type = FORMATS[name]
    config = llama_config(TINY, sizes)
    model = LlamaForCausalLM(config)
    load_state(model, seeded_state(model, seed, TABLE))
    path = OUT / f"{name}.gguf"
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch, "f32.gguf")
        write_gguf(source, model, Q.F32, Q.F32, 3)
        quantize(source, path, file_type)
    state, formats = weights_of(path, config)
    load_state(model, state)
    values = golden(model, (1, 3, 12), seed + 1, with_taps=False)
    write_tensors(path.with_suffix(".golden.safetensors"), values)
    print(f"{path.name}: {path.stat().st_size} bytes, {dict(formats)}, logit std {values['2.logits'].std():.2f}")


if __name__ == "__main__":
    for number, file in enumerate(FORMATS):
        make(file, 6000 + 10 * number)
