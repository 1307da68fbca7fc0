"""Tiny seeded Gemma 4 text checkpoints with logits and taps computed by transformers.

Writes `gemma4/` below the test data of dflash-models.
"""

import json
import shutil

import torch
from transformers import Gemma4Config, Gemma4ForCausalLM, Gemma4ForConditionalGeneration, Gemma4TextConfig

from common import (MODELS_DATA, check_loads, load_state, normal, report, rng, saved_by_transformers, seeded_state,
                    uniform, write_other_config, write_variant)

OUT = MODELS_DATA / "gemma4"
S, F = "sliding_attention", "full_attention"
TEXT = dict(hidden_size=32, intermediate_size=32, num_attention_heads=2, num_key_value_heads=1, head_dim=16,
            global_head_dim=32, vocab_size=112, vocab_size_per_layer_input=112, max_position_embeddings=512,
            rms_norm_eps=1e-6, bos_token_id=2, eos_token_id=1, pad_token_id=0, sliding_window=8,
            hidden_size_per_layer_input=0, attn_implementation="eager", experts_implementation="eager")
EXPERTS = dict(enable_moe_block=True, num_experts=4, top_k_experts=2, moe_intermediate_size=16)

VARIANTS = {
    # The last two layers read the keys and values of layers 2 and 1, and are twice as wide inside.
    "ple": dict(num_hidden_layers=5, layer_types=[S, F, S, S, F], num_kv_shared_layers=2, use_double_wide_mlp=True,
                hidden_size_per_layer_input=8, final_logit_softcapping=30.0),
    "moe": dict(num_hidden_layers=2, layer_types=[S, F], num_attention_heads=4, num_key_value_heads=2,
                num_global_key_value_heads=1, attention_k_eq_v=True, final_logit_softcapping=4.0, **EXPERTS),
    "dense": dict(num_hidden_layers=2, layer_types=[S, F], global_head_dim=16, num_key_value_heads=2),
    "bf16": dict(num_hidden_layers=2, layer_types=[S, F], hidden_size_per_layer_input=8, tie_word_embeddings=True,
                 final_logit_softcapping=30.0),
}
# Scores are not divided by the root of the head width: the norms before them keep attention from collapsing.
RULES = [
    (r"self_attn\.[qk]_norm\.weight$", lambda gen, shape: normal(gen, shape, 0.08, 0.5)),
    (r"router\.scale$", lambda gen, shape: normal(gen, shape, 0.15, 1.0)),
    (r"router\.per_expert_scale$", lambda gen, shape: uniform(gen, shape, 0.5, 1.5)),
    (r"router\.proj\.weight$", lambda gen, shape: normal(gen, shape, 2.0)),
    (r"layer_scalar$", lambda gen, shape: uniform(gen, shape, 0.6, 1.2)),
    (r"embed_tokens_per_layer\.weight$", lambda gen, shape: normal(gen, shape, 0.3)),
]


def seeded_model(changes, seed):
    model = Gemma4ForCausalLM(Gemma4TextConfig(**{**TEXT, **changes}))
    return load_state(model, seeded_state(model, seed, RULES))


def released_schema(text):
    """The config as the released files have it: the width of full layers at the top, no `per_layer_config`."""
    out = {k: v for k, v in text.items() if k != "per_layer_config"}
    full = text["per_layer_config"][max(text["per_layer_config"], key=int)] if text["per_layer_config"] else {}
    out["global_head_dim"] = full.get("head_dim", text["head_dim"])
    out["num_global_key_value_heads"] = full.get("num_key_value_heads") if text["attention_k_eq_v"] else None
    return out


def wrapped(text):
    config = json.loads(Gemma4Config(text_config=dict(text), vision_config=None, audio_config=None).to_json_string())
    return {**config, "architectures": ["Gemma4ForConditionalGeneration"], "dtype": text["dtype"], "text_config": text}


def mlx_schema(text):
    """mlx-lm knows the released schema only, and wants the size of the vocabulary at the top as well."""
    return {**wrapped(released_schema(text)), "vocab_size": text["vocab_size"]}


def unread(seed):
    """Tensors of the kinds that released files carry beside those a text model reads."""
    gen = rng(seed)
    shapes = {"model.language_model.layers.3.self_attn.k_proj.weight": (16, 32),
              "model.language_model.layers.3.self_attn.v_proj.weight": (16, 32),
              "model.language_model.layers.3.self_attn.k_norm.weight": (16,),
              "model.vision_tower.encoder.layers.0.self_attn.q_proj.linear.weight": (8, 8),
              "model.vision_tower.encoder.layers.0.self_attn.q_proj.input_max": (),
              "model.audio_tower.layers.0.feed_forward1.ffw_layer_1.linear.weight": (8, 8),
              "model.audio_tower.layers.0.feed_forward1.ffw_layer_1.output_min": (),
              "model.embed_vision.embedding_projection.weight": (32, 8),
              "model.embed_audio.embedding_projection.weight": (32, 8)}
    return {name: normal(gen, shape, 1.0) if shape else torch.tensor(1.0) for name, shape in shapes.items()}


def prefixed(tensors, prefix):
    return {prefix + k.removeprefix("model."): v for k, v in tensors.items()}


def to_mlx(tensors):
    """mlx-lm's names: own prefix, the stacked experts under `switch_glu`."""
    out = {}
    for name, tensor in prefixed(tensors, "language_model.model.").items():
        if name.endswith("experts.gate_up_proj"):
            base, half = name.removesuffix("gate_up_proj") + "switch_glu.", tensor.shape[1] // 2
            out[f"{base}gate_proj.weight"], out[f"{base}up_proj.weight"] = tensor[:, :half], tensor[:, half:]
        else:
            out[name.replace("experts.down_proj", "experts.switch_glu.down_proj.weight")] = tensor
    return out


def round_scales(model, dtype):
    """The embedding scales as the class has them when its weights are `dtype`."""
    for module in (model.model.embed_tokens, model.model.embed_tokens_per_layer):
        module.embed_scale.copy_(module.embed_scale.to(dtype))


def make():
    shutil.rmtree(OUT, ignore_errors=True)
    model = seeded_model(VARIANTS["ple"], 3000)
    text, tensors = saved_by_transformers(model)
    names = prefixed(tensors, "model.language_model.")
    write_variant(OUT / "ple", model, {**names, **unread(3001)}, wrapped(text), 3002)
    check_loads(Gemma4ForConditionalGeneration, OUT / "ple", experts_implementation="eager")
    write_other_config(Gemma4ForConditionalGeneration, OUT / "ple", "config.released", wrapped(released_schema(text)))

    model = seeded_model(VARIANTS["moe"], 3011)
    text, tensors = saved_by_transformers(model)
    eager = dict(experts_implementation="eager")
    write_variant(OUT / "moe", model, prefixed(tensors, "model.language_model."), wrapped(text), 3012)
    check_loads(Gemma4ForConditionalGeneration, OUT / "moe", **eager)
    released = wrapped(released_schema(text))
    write_other_config(Gemma4ForConditionalGeneration, OUT / "moe", "config.released", released, **eager)
    write_variant(OUT / "mlx-moe", model, to_mlx(tensors), mlx_schema(text), 3012)

    model = seeded_model(VARIANTS["dense"], 3020)
    text, tensors = saved_by_transformers(model)
    write_variant(OUT / "dense", model, tensors, text, 3022)
    check_loads(Gemma4ForCausalLM, OUT / "dense")

    model = seeded_model(VARIANTS["bf16"], 3030)
    text, tensors = saved_by_transformers(model, torch.bfloat16)
    load_state(model, tensors)
    round_scales(model, torch.bfloat16)
    write_variant(OUT / "bf16", model, tensors, text, 3032)


if __name__ == "__main__":
    make()
    report(OUT)
