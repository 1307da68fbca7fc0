"""Tiny checkpoints quantised by mlx-lm, with goldens from the dequantised weights computed by transformers.

Writes `mlx/` below the test data of dflash-models. `MLX_PYTHON` names a Python with mlx-lm; it also loads the
unquantised directories in mlx layout and reports how far its own logits are from the goldens.
"""

import json
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from transformers import LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

import make_gemma4
import make_hybrid
import make_qwen
from common import (DTYPES, MODELS_DATA, describe, fresh_dir, golden, load_state, old_schema, report,
                    saved_by_transformers, seeded_state, write_json, write_tensors)
from make_llama import llama_config

OUT = MODELS_DATA / "mlx"
MLX_PYTHON = os.environ["MLX_PYTHON"]
SIZES = dict(hidden_size=64, intermediate_size=64)


# ---------------------------------------------------------------- sources

def llama(layers, seed):
    sizes = dict(num_hidden_layers=layers, num_attention_heads=4, num_key_value_heads=2, vocab_size=112,
                 tie_word_embeddings=True, head_dim=16)
    model = LlamaForCausalLM(llama_config(SIZES, sizes))
    return load_state(model, seeded_state(model, seed)), old_schema


def qwen3(seed):
    config = Qwen3Config(**{**make_qwen.BASE, **SIZES, "num_hidden_layers": 2}, head_dim=16,
                         tie_word_embeddings=False, attn_implementation="eager")
    model = Qwen3ForCausalLM(config)
    return load_state(model, seeded_state(model, seed)), old_schema


def qwen35_moe(seed):
    layers = ["linear_attention", "full_attention"]
    changes = dict(**SIZES, **make_hybrid.EXPERTS, num_hidden_layers=2, layer_types=layers, full_attention_interval=2)
    changes.update(moe_intermediate_size=64, shared_expert_intermediate_size=64, num_experts=4)
    # mlx-lm knows the interval only.
    model = make_hybrid.wrapped_model(make_hybrid.QWEN35_MOE, seed, changes)
    return model, lambda config: {**config, "text_config": {**config["text_config"], "full_attention_interval": 2}}


def gemma4(seed):
    model = make_gemma4.seeded_model(dict(
        **SIZES, num_hidden_layers=2, layer_types=["sliding_attention", "full_attention"], num_attention_heads=2,
        num_key_value_heads=2, num_global_key_value_heads=1, attention_k_eq_v=True, enable_moe_block=True,
        final_logit_softcapping=30.0, num_experts=4, top_k_experts=2, moe_intermediate_size=32), seed)
    return model, make_gemma4.mlx_schema


MIXED = {"model.layers.0.mlp.down_proj": dict(bits=6, group_size=64), "lm_head": dict(bits=8, group_size=32),
         "model.layers.0.self_attn.q_proj": dict(bits=3, group_size=32), "model.layers.1.self_attn.v_proj": False}
VARIANTS = {
    # name: (source, stored dtype, settings)
    "llama-4bit-gs64": (lambda: llama(2, 7000), "bfloat16", dict(bits=4, group_size=64)),
    "qwen3-4bit-gs32": (lambda: qwen3(7010), "float32", dict(bits=4, group_size=32)),
    "qwen3-mixed": (lambda: qwen3(7020), "float16", dict(bits=4, group_size=64, overrides=MIXED)),
    "qwen3_5_moe-4bit-gs64": (lambda: qwen35_moe(7030), "bfloat16", dict(bits=4, group_size=64)),
    "gemma4-4bit-gs32": (lambda: gemma4(7040), "float32", dict(bits=4, group_size=32)),
    **{f"llama-{bits}bit": (lambda: llama(1, 7050), dtype, dict(bits=bits, group_size=group))
       for bits, group, dtype in ((2, 32, "float32"), (3, 64, "bfloat16"), (5, 32, "float16"), (6, 64, "float32"),
                                  (8, 64, "bfloat16"))},
}


def mlx(*arguments):
    subprocess.run([MLX_PYTHON, str(Path(__file__).with_name("quantize_mlx.py")), *map(str, arguments)], check=True,
                   stdout=subprocess.DEVNULL)


# ---------------------------------------------------------------- reading back

def dequantized(tensors, config):
    """The float32 tensors a quantised directory stands for: `scale * code + bias`, codes a little-endian bit stream."""
    settings, out = config["quantization"], {}
    for name, tensor in tensors.items():
        path, _, kind = name.rpartition(".")
        if f"{path}.scales" not in tensors:
            out[name] = tensor.float()
        elif kind == "weight":
            bits = {**settings, **settings.get(path, {})}["bits"]
            scales, biases = (tensors[f"{path}.{k}"].float() for k in ("scales", "biases"))
            stream = np.unpackbits(tensor.numpy().view(np.uint8), axis=-1, bitorder="little")
            codes = stream.reshape(*stream.shape[:-1], -1, bits) @ (1 << np.arange(bits))
            codes = torch.from_numpy(codes).float().reshape(*scales.shape, -1)
            out[name] = (codes * scales[..., None] + biases[..., None]).flatten(-2)
    return out


def joined_experts(tensors, stack):
    """Experts as the classes of transformers hold them: gate and up in one tensor."""
    out = {}
    for name, tensor in tensors.items():
        if name.endswith(f"{stack}.gate_proj.weight"):
            up = tensors[name.replace("gate_proj", "up_proj")]
            out[name.replace(f"{stack}.gate_proj.weight", "experts.gate_up_proj")] = torch.cat([tensor, up], dim=1)
        elif name.endswith(f"{stack}.down_proj.weight"):
            out[name.replace(f"{stack}.down_proj.weight", "experts.down_proj")] = tensor
        elif f"{stack}.up_proj" not in name:
            out[name] = tensor
    return out


def own_names(tensors, model):
    """mlx-lm's names, norms and convolutions turned back into those of `model`."""
    if type(model).__name__.startswith("Gemma4"):
        named = {k.removeprefix("language_model."): v for k, v in tensors.items()}
        return {k.replace(".experts.experts.", ".experts."): v for k, v in joined_experts(named, "switch_glu").items()}
    if not type(model).__name__.startswith("Qwen3_5"):
        return tensors
    out = {}
    for name, tensor in joined_experts(tensors, "switch_mlp").items():
        name = name.replace("language_model.model.", "model.language_model.").replace("language_model.lm_head", "lm_head")
        if name.endswith("conv1d.weight"):
            tensor = tensor.movedim(1, 2)
        elif tensor.ndim == 1 and name.endswith("norm.weight") and "linear_attn" not in name:
            tensor = tensor - 1.0
        out[name] = tensor
    return out


def mlx_gap(directory, kind):
    """Largest difference between mlx-lm's logits and the goldens, computing in the stored type or in float32."""
    with tempfile.TemporaryDirectory() as scratch:
        theirs = Path(scratch, "logits.safetensors")
        mlx("logits", directory, theirs, kind)
        got, want = load_file(theirs), load_file(directory / "golden.safetensors")
    return max((got[k] - want[k]).abs().max().item() for k in got)


def report_gap(directory):
    print(f"{directory.parent.name}/{directory.name}: mlx-lm within {mlx_gap(directory, 'stored'):.1e}, "
          f"in float32 {mlx_gap(directory, 'float32'):.1e}")


def make(name):
    source, dtype, settings = VARIANTS[name]
    model, schema = source()
    config, tensors = saved_by_transformers(model, DTYPES[dtype])
    if name.startswith("gemma4"):
        tensors = make_gemma4.prefixed(tensors, "model.language_model.")
    elif name.startswith("qwen3_5"):
        tensors = make_hybrid.without_vision(make_hybrid.as_bfloat16(model))
    with tempfile.TemporaryDirectory() as scratch:
        write_json(Path(scratch, "config.json"), schema(config))
        write_tensors(Path(scratch, "model.safetensors"), tensors)
        mlx("quantize", scratch, OUT / name, json.dumps(settings))
    target = OUT / name
    (target / "model.safetensors").chmod(0o644)
    config = json.loads((target / "config.json").read_text())
    held = own_names(dequantized(load_file(target / "model.safetensors"), config), model)
    unread = {k: v for k, v in make_hybrid.own_tensors(model).items() if k.startswith("model.visual")}
    load_state(model, {**unread, **held})
    values = golden(model, (1, 3, 2, 12), 7100)
    write_tensors(target / "golden.safetensors", values)
    describe(f"mlx/{name}", model, values)
    report_gap(target)


if __name__ == "__main__":
    fresh_dir(OUT)
    for variant in VARIANTS:
        make(variant)
    report(OUT)
    for plain in ("qwen3_5/mlx-r2", "qwen3_5_moe/mlx", "gemma4/mlx-moe", "lfm2/mlx-bias"):
        report_gap(MODELS_DATA / plain)
