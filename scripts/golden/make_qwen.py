"""Tiny seeded Qwen checkpoints without recurrent layers (qwen2, qwen3, qwen3_moe), computed by transformers.

Writes directories of these names below the test data of dflash-models.
"""

import shutil
import sys

from transformers import (Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM, Qwen3MoeConfig,
                          Qwen3MoeForCausalLM)

from common import (DTYPES, MODELS_DATA, check_loads, load_state, normal, old_schema, report, saved_by_transformers,
                    seeded_state, write_other_config, write_variant)

BASE = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
            vocab_size=112, max_position_embeddings=512, rms_norm_eps=1e-6, bos_token_id=1, eos_token_id=2,
            pad_token_id=None, rope_parameters=dict(rope_type="default", rope_theta=1e6))
WIDE = dict(hidden_size=64, intermediate_size=32, num_hidden_layers=2, head_dim=16)
SPARSE = dict(num_experts=6, num_experts_per_tok=2, moe_intermediate_size=16, intermediate_size=48, head_dim=16)

# Router rows long enough that the experts' probabilities are far apart.
ROUTER = [(r"mlp\.gate\.weight$", lambda gen, shape: normal(gen, shape, 0.5))]

VARIANTS = {
    # family: (config class, model class, {name: (changes, stored dtype)})
    "qwen3": (Qwen3Config, Qwen3ForCausalLM, {
        "tied": (dict(**WIDE, tie_word_embeddings=True), "float32"),
        # The heads together are twice as wide as the residual stream.
        "untied-bf16": (dict(head_dim=16, num_key_value_heads=1, tie_word_embeddings=False), "bfloat16"),
    }),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM, {
        "tied": (dict(tie_word_embeddings=True), "float32"),
        "untied-bf16": (dict(tie_word_embeddings=False, num_key_value_heads=1), "bfloat16"),
    }),
    "qwen3_moe": (Qwen3MoeConfig, Qwen3MoeForCausalLM, {
        # One sparse layer, the last: every second, less layer 1.
        "mixed-bf16": (dict(**SPARSE, num_hidden_layers=4, decoder_sparse_step=2, mlp_only_layers=[1], norm_topk_prob=True,
                            tie_word_embeddings=False), "bfloat16"),
        "unnormalised": (dict(**SPARSE, num_hidden_layers=2, norm_topk_prob=False, tie_word_embeddings=True), "float32"),
    }),
}


def make(family, name, seed):
    config_class, model_class, variants = VARIANTS[family]
    changes, dtype = variants[name]
    config = config_class(**{**BASE, **changes}, attn_implementation="eager", experts_implementation="eager")
    model = model_class(config)
    load_state(model, seeded_state(model, seed, ROUTER), DTYPES[dtype])
    out = MODELS_DATA / family / name
    saved, tensors = saved_by_transformers(model, DTYPES[dtype])
    write_variant(out, model, tensors, saved, seed + 1)
    check_loads(model_class, out, experts_implementation="eager")
    write_other_config(model_class, out, "config.v4", old_schema(saved), experts_implementation="eager")


if __name__ == "__main__":
    for number, family in enumerate(VARIANTS):
        if sys.argv[1:] and family not in sys.argv[1:]:
            continue
        shutil.rmtree(MODELS_DATA / family, ignore_errors=True)
        for offset, variant in enumerate(VARIANTS[family][2]):
            make(family, variant, 1000 + 100 * number + 10 * offset)
        report(MODELS_DATA / family)
