"""Gemma 4 goldens with keys and values rounded to f16, as a K/V cache stores them.

Gemma 4 does not scale its scores down, so this rounding moves logits by up to half a percent of their spread; goldens
without it could not tell a wrong factor from rounding. Reads what `make_gemma4.py` wrote and adds
`golden.f16.safetensors` to every variant.
"""

import json

import torch
from safetensors.torch import load_file
from transformers import Gemma4ForCausalLM, Gemma4TextConfig
from transformers.models.gemma4 import modeling_gemma4

import make_gemma4
from common import load_state, report, run, write_tensors


def rounded(attention):
    def forward(module, query, key, value, *args, **kwargs):
        return attention(module, query, key.half().float(), value.half().float(), *args, **kwargs)
    return forward


def text_model(directory):
    config = json.loads((directory / "config.json").read_text())
    config = config.get("text_config", config)
    eager = dict(attn_implementation="eager", experts_implementation="eager")
    model = Gemma4ForCausalLM(Gemma4TextConfig(**{**config, **eager}))
    tensors = load_file(directory / "model.safetensors")
    names = {k.replace("model.language_model.", "model."): k for k in tensors}
    load_state(model, {k: tensors[names[k]] for k in model.state_dict() if k in names})
    if config["dtype"] == "bfloat16":
        make_gemma4.round_scales(model, torch.bfloat16)
    return model


def make(source, target):
    """Goldens of the checkpoint in `source`, for every directory of `target` that holds the same weights."""
    model, values = text_model(source), load_file(source / "golden.safetensors")
    out = {}
    for n in range(sum(name.endswith(".ids") for name in values)):
        ids = values[f"{n}.ids"]
        logits, taps = run(model, ids.tolist())
        out |= {f"{n}.ids": ids, f"{n}.logits": logits, **{f"{n}.tap.{l}": tap for l, tap in taps.items()}}
    for directory in target:
        write_tensors(directory / "golden.f16.safetensors", out)


if __name__ == "__main__":
    modeling_gemma4.eager_attention_forward = rounded(modeling_gemma4.eager_attention_forward)
    here = make_gemma4.OUT
    for variant in ("ple", "dense", "bf16"):
        make(here / variant, [here / variant])
    make(here / "moe", [here / "moe", here / "mlx-moe"])
    report(here)
