"""Tiny seeded LFM2 checkpoints (attention and short convolutions) with logits and taps computed by transformers.

Writes `lfm2/` below the test data of dflash-models.
"""

import shutil

from transformers import Lfm2Config, Lfm2ForCausalLM

from common import (DTYPES, MODELS_DATA, check_loads, load_state, normal, report, saved_by_transformers, seeded_state,
                    write_other_config, write_variant)

OUT = MODELS_DATA / "lfm2"
C, F = "conv", "full_attention"
BASE = dict(hidden_size=32, num_hidden_layers=3, layer_types=[C, F, C], num_attention_heads=4,
            num_key_value_heads=2, vocab_size=112, max_position_embeddings=512, norm_eps=1e-5, conv_L_cache=3,
            bos_token_id=1, eos_token_id=2, pad_token_id=0, attn_implementation="eager")

VARIANTS = {
    # The width inside the MLP is what it says.
    "plain": (dict(conv_bias=False, block_auto_adjust_ff_dim=False, intermediate_size=48), "float32"),
    # int(1.5 * int(2 * 64 / 3)) = 63, rounded up to a multiple of 16: 64 again, not 96.
    "bias": (dict(conv_bias=True, block_auto_adjust_ff_dim=True, intermediate_size=64, block_ffn_dim_multiplier=1.5,
                  block_multiple_of=16, layer_types=[C, C, F]), "bfloat16"),
    # int(2 * 100 / 3) = 66, rounded up to 72; untied, four taps, the last layer attends.
    "untied-bf16": (dict(conv_bias=False, block_auto_adjust_ff_dim=True, intermediate_size=100, conv_L_cache=4,
                         block_ffn_dim_multiplier=1.0, block_multiple_of=8, layer_types=[F, C, F],
                         tie_word_embeddings=False), "bfloat16"),
}
RULES = [(r"conv\.conv\.weight$", lambda gen, shape: normal(gen, shape, 0.5)),
         # The gates multiply: at the usual size their product would vanish.
         (r"conv\.in_proj\.weight$", lambda gen, shape: normal(gen, shape, 1.2 / shape[-1] ** 0.5))]


def released_schema(config):
    """The keys of the released files: `block_ff_dim`, `full_attn_idxs`, `rope_theta`, `tie_embedding`."""
    out = {k: v for k, v in config.items() if k not in (
        "layer_types", "intermediate_size", "rope_parameters", "tie_word_embeddings", "dtype")}
    attending = [i for i, kind in enumerate(config["layer_types"]) if kind == F]
    return {**out, "block_ff_dim": config["intermediate_size"], "block_dim": config["hidden_size"],
            "conv_dim": config["hidden_size"], "conv_dim_out": config["hidden_size"], "full_attn_idxs": attending,
            "rope_theta": config["rope_parameters"]["rope_theta"], "tie_embedding": config["tie_word_embeddings"],
            "num_heads": config["num_attention_heads"], "block_norm_eps": config["norm_eps"],
            "block_use_swiglu": True, "torch_dtype": config["dtype"], "transformers_version": "4.54.0"}


def to_mlx(tensors):
    return {k: v.movedim(2, 1) if k.endswith("conv.conv.weight") else v for k, v in tensors.items()}


def make(name, seed):
    changes, dtype = VARIANTS[name]
    model = Lfm2ForCausalLM(Lfm2Config(**{**BASE, **changes}))
    load_state(model, seeded_state(model, seed, RULES), DTYPES[dtype])
    config, tensors = saved_by_transformers(model, DTYPES[dtype])
    write_variant(OUT / name, model, tensors, config, seed + 2)
    check_loads(Lfm2ForCausalLM, OUT / name)
    write_other_config(Lfm2ForCausalLM, OUT / name, "config.released", released_schema(config))
    if name == "bias":
        # mlx-lm wants the released schema.
        write_variant(OUT / "mlx-bias", model, to_mlx(tensors), released_schema(config), seed + 2)


if __name__ == "__main__":
    shutil.rmtree(OUT, ignore_errors=True)
    for number, variant in enumerate(VARIANTS):
        make(variant, 4001 + 10 * number)
    report(OUT)
