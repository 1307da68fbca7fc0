"""Tiny seeded checkpoints with gated delta-net layers (qwen3_5, qwen3_5_moe, qwen3_next), computed by transformers.

Writes directories of these names below the test data of dflash-models.
"""

import re
import shutil
import sys

import torch
from transformers import (Qwen3_5Config, Qwen3_5ForCausalLM, Qwen3_5ForConditionalGeneration, Qwen3_5MoeConfig,
                          Qwen3_5MoeForCausalLM, Qwen3_5MoeForConditionalGeneration, Qwen3_5MoeTextConfig,
                          Qwen3_5TextConfig, Qwen3NextConfig, Qwen3NextForCausalLM)
from transformers.models.qwen3_5 import modeling_qwen3_5
from transformers.models.qwen3_5_moe import modeling_qwen3_5_moe
from transformers.models.qwen3_next import modeling_qwen3_next

from common import (DTYPES, MODELS_DATA, check_loads, load_state, normal, old_schema, report, rng,
                    saved_by_transformers, seeded_state, uniform, write_other_config, write_variant)

TEXT = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=4, num_attention_heads=2, num_key_value_heads=1,
            head_dim=32, vocab_size=112, max_position_embeddings=512, rms_norm_eps=1e-6, bos_token_id=1,
            eos_token_id=2, pad_token_id=None, tie_word_embeddings=False, linear_conv_kernel_dim=4,
            linear_key_head_dim=16, linear_value_head_dim=16, linear_num_key_heads=2, linear_num_value_heads=4,
            rope_parameters=dict(rope_type="default", rope_theta=1e7, partial_rotary_factor=0.25,
                                 mrope_section=[2, 1, 1], mrope_interleaved=True))
VISION = dict(depth=1, hidden_size=8, intermediate_size=8, num_heads=2, patch_size=2, temporal_patch_size=1,
              spatial_merge_size=1, out_hidden_size=32, num_position_embeddings=4)
WRAPPER = dict(image_token_id=108, video_token_id=109, vision_start_token_id=110, vision_end_token_id=111)
EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, shared_expert_intermediate_size=24)
NEXT_ROPE = dict(rope_type="default", rope_theta=1e7, partial_rotary_factor=0.25)

ZERO_CENTRED = r"(layers\.\d+\.(input_layernorm|post_attention_layernorm|self_attn\.[qk]_norm)|model\.norm)\.weight$"
ZERO_CENTRED_WRAPPED = ZERO_CENTRED.replace(r"model\.norm", r"language_model\.norm")
RULES = [
    (r"A_log$", lambda gen, shape: uniform(gen, shape, 0.5, 16.0).log()),
    (r"dt_bias$", lambda gen, shape: uniform(gen, shape, -5.0, 0.0)),
    (r"conv1d\.weight$", lambda gen, shape: normal(gen, shape, 0.5)),
    (r"in_proj_(a|b|ba)\.weight$", lambda gen, shape: normal(gen, shape, 1.5 / shape[-1] ** 0.5)),
    (r"mlp\.gate\.weight$|shared_expert_gate\.weight$", lambda gen, shape: normal(gen, shape, 0.5)),
]
CENTRED_RULES = [(rf"({ZERO_CENTRED}|{ZERO_CENTRED_WRAPPED})", lambda gen, shape: normal(gen, shape, 0.15))]

# Whole sequences by the token-by-token rule too: the chunked one is the same sum, but rounds more.
for module in (modeling_qwen3_5, modeling_qwen3_5_moe, modeling_qwen3_next):
    module.torch_chunk_gated_delta_rule = module.torch_recurrent_gated_delta_rule

QWEN35 = (Qwen3_5Config, Qwen3_5ForConditionalGeneration, Qwen3_5TextConfig, Qwen3_5ForCausalLM)
QWEN35_MOE = (Qwen3_5MoeConfig, Qwen3_5MoeForConditionalGeneration, Qwen3_5MoeTextConfig, Qwen3_5MoeForCausalLM)


def seeded(model, seed):
    return load_state(model, seeded_state(model, seed, CENTRED_RULES + RULES))


def eager(kwargs):
    return dict(attn_implementation="eager", experts_implementation="eager", **kwargs)


def wrapped_model(classes, seed, changes):
    config_class, model_class, text_class, _ = classes
    config = config_class(**eager(WRAPPER), text_config=text_class(**{**TEXT, **changes}).to_dict(),
                          vision_config=VISION, tie_word_embeddings=changes.get("tie_word_embeddings", False))
    return seeded(model_class(config), seed)


def flat_model(classes, seed, changes):
    return seeded(classes[3](classes[2](**eager({**TEXT, **changes}))), seed)


def multi_token_prediction(seed):
    """Tensors of the extra prediction layer that released files carry beside the text model."""
    gen = rng(seed)
    shapes = {"fc": (32, 64), "norm": (32,), "pre_fc_norm_hidden": (32,), "layers.0.input_layernorm": (32,),
              "layers.0.self_attn.q_proj": (128, 32), "layers.0.mlp.down_proj": (32, 48)}
    return {f"mtp.{name}.weight": normal(gen, shape, 0.1) for name, shape in shapes.items()}


def own_tensors(model):
    """The tensors under the model's own names, which are those of the released files: experts in two stacks a layer."""
    tied = model.config.get_text_config().tie_word_embeddings
    return {k: v.clone() for k, v in model.state_dict().items() if not (tied and k == "lm_head.weight")}


# ---------------------------------------------------------------- mlx layout

def split_gate_up(name, tensor):
    half = tensor.shape[1] // 2
    base = name.removesuffix("experts.gate_up_proj") + "switch_mlp."
    return {f"{base}gate_proj.weight": tensor[:, :half].clone(), f"{base}up_proj.weight": tensor[:, half:].clone()}


def to_mlx(tensors):
    """What mlx-lm's converter writes: own prefix, no towers, norms with the one added, convolution channels last."""
    out = {}
    for name, tensor in tensors.items():
        if name.startswith(("model.visual", "mtp.")):
            continue
        if re.search(f"{ZERO_CENTRED}|{ZERO_CENTRED_WRAPPED}", name):
            tensor = tensor.float() + 1.0
        elif name.endswith("conv1d.weight"):
            tensor = tensor.movedim(2, 1)
        name = re.sub(r"^model\.language_model\.", "language_model.model.", name)
        name = name if name.startswith("language_model.") else f"language_model.{name}"
        if name.endswith("experts.gate_up_proj"):
            out.update(split_gate_up(name, tensor))
        else:
            out[name.replace("experts.down_proj", "switch_mlp.down_proj.weight")] = tensor.clone()
    return out


# ---------------------------------------------------------------- families

def interval_config(config):
    """The same layers said by `full_attention_interval` instead of a list."""
    text = {k: v for k, v in config["text_config"].items() if k != "layer_types"}
    return {**config, "text_config": {**text, "full_attention_interval": 4}}


def without_vision(tensors):
    return {k: v for k, v in tensors.items() if not k.startswith("model.visual")}


def as_bfloat16(model):
    """The tensors in bfloat16, but for `A_log`, which no converter rounds; `model` is given the rounded values."""
    tensors = {k: v.to(torch.float32 if k.endswith("A_log") else torch.bfloat16) for k, v in own_tensors(model).items()}
    load_state(model, tensors)
    return tensors


def make_qwen35(out=MODELS_DATA / "qwen3_5"):
    model = wrapped_model(QWEN35, 2000, {})
    tensors = as_bfloat16(model)
    config = saved_by_transformers(model, torch.bfloat16)[0]
    write_variant(out / "wrapper-r2", model, {**tensors, **multi_token_prediction(2001)}, config, 2002)
    check_loads(QWEN35[1], out / "wrapper-r2")
    write_other_config(QWEN35[1], out / "wrapper-r2", "config.interval", interval_config(config))
    # transformers cannot read this one, but it is the same model with the same golden.
    write_variant(out / "mlx-r2", model, to_mlx(tensors), config, 2002)

    model = wrapped_model(QWEN35, 2010, dict(linear_num_value_heads=6, tie_word_embeddings=True))
    tensors = without_vision(as_bfloat16(model))
    write_variant(out / "wrapper-r3", model, tensors, saved_by_transformers(model, torch.bfloat16)[0], 2012)

    irregular = ["linear_attention", "full_attention", "linear_attention"]
    model = flat_model(QWEN35, 2020, dict(
        num_hidden_layers=3, layer_types=irregular, linear_num_key_heads=3, linear_num_value_heads=3,
        linear_value_head_dim=8, linear_conv_kernel_dim=3, num_key_value_heads=2, tie_word_embeddings=True,
        rope_parameters=dict(rope_type="default", rope_theta=1e4, partial_rotary_factor=0.5, mrope_section=[4, 2, 2],
                             mrope_interleaved=True)))
    config, tensors = saved_by_transformers(model)
    write_variant(out / "flat-r1", model, tensors, config, 2022)
    check_loads(QWEN35[3], out / "flat-r1")


def make_qwen35_moe(out=MODELS_DATA / "qwen3_5_moe"):
    model = wrapped_model(QWEN35_MOE, 2200, EXPERTS)
    tensors = without_vision(as_bfloat16(model))
    config = saved_by_transformers(model, torch.bfloat16)[0]
    write_variant(out / "fused", model, tensors, config, 2102)
    write_variant(out / "mlx", model, to_mlx(tensors), config, 2102)

    # What transformers itself writes: one tensor per expert and projection.
    model = flat_model(QWEN35_MOE, 2110, dict(**EXPERTS, num_hidden_layers=2, layer_types=[
        "linear_attention", "full_attention"], linear_num_value_heads=6, tie_word_embeddings=True))
    config, tensors = saved_by_transformers(model)
    write_variant(out / "flat-separate-r3", model, tensors, config, 2112)
    check_loads(QWEN35_MOE[3], out / "flat-separate-r3", experts_implementation="eager")


def make_next(out=MODELS_DATA / "qwen3_next"):
    variants = {
        # Sparse layers: 1 only; 0 and 2 by the step, 3 by the list are dense.
        "mixed-r2": (dict(decoder_sparse_step=2, mlp_only_layers=[3]), "bfloat16"),
        "sparse-r3": (dict(num_hidden_layers=2, layer_types=["linear_attention", "full_attention"],
                           linear_num_value_heads=6, tie_word_embeddings=True), "float32"),
    }
    for n, (name, (changes, dtype)) in enumerate(variants.items()):
        config = Qwen3NextConfig(**eager({**TEXT, **EXPERTS, "norm_topk_prob": True, "rope_parameters": NEXT_ROPE,
                                          **changes}))
        model = seeded(Qwen3NextForCausalLM(config), 2200 + 10 * n)
        load_state(model, own_tensors(model), DTYPES[dtype])
        saved, tensors = saved_by_transformers(model, DTYPES[dtype])
        write_variant(out / name, model, tensors, saved, 2202 + 10 * n)
        check_loads(Qwen3NextForCausalLM, out / name, experts_implementation="eager")
        write_other_config(Qwen3NextForCausalLM, out / name, "config.v4", old_schema(saved),
                           experts_implementation="eager")


FAMILIES = {"qwen3_5": make_qwen35, "qwen3_5_moe": make_qwen35_moe, "qwen3_next": make_next}

if __name__ == "__main__":
    for family in sys.argv[1:] or FAMILIES:
        shutil.rmtree(MODELS_DATA / family, ignore_errors=True)
        FAMILIES[family]()
        report(MODELS_DATA / family)
