"""Tiny seeded draft checkpoints in every layout, with an independent forward pass as the oracle.

Writes `draft/` below the test data of dflash-models. Needs `llama/tied` (make_llama.py), whose
embedding and head the drafts share. Everything is computed in float32 from the stored weights.
"""

import math
from dataclasses import dataclass, field

import torch
from safetensors.torch import load_file

from common import DTYPES, MODELS_DATA, fresh_dir, normal, random_ids, report, rng, run, write_json, write_tensors

TARGET = MODELS_DATA / "llama" / "tied"
OUT = MODELS_DATA / "draft"
HIDDEN, HEADS, KV_HEADS, HEAD_DIM, VOCAB, TARGET_LAYERS = 64, 4, 2, 16, 112, 4
BLOCK, MASK_ID, EPS = 8, 105, 1e-6
# Pretend that the tokenizer ends at 100: rows 100..111 are padding and the mask id is one of them.
TOKENIZER = 100
# (new context rows, block width) of each cycle; the last two are a shrunken block and a full acceptance.
CYCLES = [(20, 8), (3, 8), (1, 5), (8, 8)]
DRAFT_VOCAB = 40


# ---------------------------------------------------------------- the forward pass

@dataclass
class Params:
    """What the mathematics needs, read from any of the three config layouts."""
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    eps: float
    rope: dict
    layer_types: list
    window: int | None
    causal: dict  # per layer type: may a block row see later block rows?
    block: int
    mask: int
    taps: list


def read_config(raw):
    """Flat, nested or speculators layout; where both places hold a value the top level wins."""
    spec = "speculators_model_type" in raw
    body = raw["transformer_layer_config"] if spec else raw
    inner = {} if spec else raw["dflash_config"]
    rope = dict(body.get("rope_parameters") or {})
    if "rope_theta" in body:
        rope["rope_theta"] = body["rope_theta"]
    if body.get("rope_scaling"):
        rope.update(body["rope_scaling"])
    rope["rope_type"] = rope.get("rope_type", rope.get("type", "default"))
    layers = body["num_hidden_layers"]
    causal = {"full_attention": False, "sliding_attention": True}
    for place in (inner, raw):
        for key in ("causal", "is_causal"):
            if key in place:
                causal = {k: place[key] for k in causal}
    if raw.get("sliding_window_non_causal"):
        causal["sliding_attention"] = False
    return Params(
        layers=layers, heads=body["num_attention_heads"], kv_heads=body["num_key_value_heads"],
        head_dim=body["head_dim"], eps=body["rms_norm_eps"], rope=rope,
        layer_types=body.get("layer_types") or ["full_attention"] * layers, window=body.get("sliding_window"),
        causal=causal, block=raw.get("block_size", inner.get("block_size")),
        mask=raw["mask_token_id"] if spec else inner["mask_token_id"],
        taps=[i - 1 for i in raw["aux_hidden_state_layer_ids"]] if spec else inner["target_layer_ids"])


def frequencies(rope, dim):
    """Inverse frequency per pair and the factor on both rotated q and k."""
    base = rope["rope_theta"]
    inverse = base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    if rope["rope_type"] == "default":
        return inverse.float(), 1.0
    assert rope["rope_type"] == "yarn"
    factor, original = rope["factor"], rope["original_max_position_embeddings"]

    def turns_at(turns):
        return dim * math.log(original / (2 * math.pi * turns)) / (2 * math.log(base))

    low = max(math.floor(turns_at(rope.get("beta_fast", 32))), 0)
    high = min(math.ceil(turns_at(rope.get("beta_slow", 1))), dim - 1)
    ramp = ((torch.arange(dim // 2, dtype=torch.float64) - low) / max(high - low, 0.001)).clamp(0, 1)
    scaled = inverse * (1 - ramp) + inverse / factor * ramp
    return scaled.float(), 0.1 * math.log(factor) + 1.0


def rms(x, weight, eps):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def rotate(x, positions, rope):
    """x: [rows, heads, dim], halves paired."""
    inverse, factor = rope
    angle = positions.float()[:, None, None] * inverse
    cos, sin = angle.cos() * factor, angle.sin() * factor
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


class ContextRows:
    """Which context rows are kept: the first `sink` and the last `window`."""

    def __init__(self, sink, window):
        self.sink, self.window, self.offset = sink, window, 0
        self.rows, self.positions = None, []

    def append(self, rows):
        n = rows.shape[0]
        take = list(range(n))
        if not self.positions:
            if n > self.sink + self.window:
                take = [*range(self.sink), *range(max(self.sink, n - self.window), n)]
        elif n > self.window:
            take = take[-self.window:]
        new = rows[take]
        self.rows = new if self.rows is None else torch.cat([self.rows, new])
        self.positions += [self.offset + i for i in take]
        self.offset += n
        if len(self.positions) > self.sink + self.window:
            keep = [*range(self.sink), *range(len(self.positions) - self.window, len(self.positions))]
            self.rows, self.positions = self.rows[keep], [self.positions[i] for i in keep]


def check_context_rule():
    cache = ContextRows(2, 3)
    cache.append(torch.zeros(8, 1))
    assert cache.positions == [0, 1, 5, 6, 7]
    cache.append(torch.zeros(2, 1))
    assert cache.positions == [0, 1, 7, 8, 9] and cache.offset == 10


class Draft:
    """Keeps projected context rows, not K/V: keys and values are recomputed every cycle."""

    def __init__(self, raw, weights, embed, head, sink=64, window=1024):
        self.p, self.w = read_config(raw), weights
        self.embed, self.head = embed, head
        self.context = ContextRows(sink, max(1, window, self.p.window or 0))
        self.rope = frequencies(self.p.rope, self.p.head_dim)

    def project(self, features):
        return rms(features @ self.w["fc.weight"].T, self.w["hidden_norm.weight"], self.p.eps)

    def visible(self, kind, q_pos, context_pos):
        """[block rows, context rows + block rows] of bool."""
        block = torch.ones(len(q_pos), len(q_pos), dtype=torch.bool)
        context = torch.ones(len(q_pos), len(context_pos), dtype=torch.bool)
        if self.p.causal[kind]:
            block = block.tril()
        if kind == "sliding_attention":
            context = q_pos[:, None] - context_pos[None, :] < self.p.window
        return torch.cat([context, block], dim=1)

    def layer(self, i, h, q_pos, context_pos):
        p, w = self.p, {k.removeprefix(f"layers.{i}."): v for k, v in self.w.items() if k.startswith(f"layers.{i}.")}

        def heads(x, name, count, norm=None, pos=None):
            y = (x @ w[f"self_attn.{name}_proj.weight"].T).view(x.shape[0], count, p.head_dim)
            return y if norm is None else rotate(rms(y, w[f"self_attn.{norm}.weight"], p.eps), pos, self.rope)

        x = rms(h, w["input_layernorm.weight"], p.eps)
        source = torch.cat([self.context.rows, x])
        k_pos = torch.cat([context_pos, q_pos])
        q = heads(x, "q", p.heads, "q_norm", q_pos)
        k = heads(source, "k", p.kv_heads, "k_norm", k_pos)
        v = heads(source, "v", p.kv_heads)
        group = p.heads // p.kv_heads
        k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        scores = torch.einsum("qhd,khd->hqk", q, k) * p.head_dim ** -0.5
        seen = self.visible(p.layer_types[i], q_pos, context_pos)
        scores = scores.masked_fill(~seen[None], float("-inf"))
        mixed = torch.einsum("hqk,khd->qhd", scores.softmax(-1), v).reshape(x.shape[0], -1)
        h = h + mixed @ w["self_attn.o_proj.weight"].T
        y = rms(h, w["post_attention_layernorm.weight"], p.eps)
        gated = torch.nn.functional.silu(y @ w["mlp.gate_proj.weight"].T) * (y @ w["mlp.up_proj.weight"].T)
        return h + gated @ w["mlp.down_proj.weight"].T

    def cycle(self, features, ids):
        """(projected rows, start, logits of block rows 1..)."""
        projected = self.project(features)
        self.context.append(projected)
        start = self.context.offset
        q_pos = torch.arange(start, start + len(ids))
        context_pos = torch.tensor(self.context.positions)
        h = self.embed[torch.tensor(ids)]
        for i in range(self.p.layers):
            h = self.layer(i, h, q_pos, context_pos)
        return projected, start, rms(h, self.w["norm.weight"], self.p.eps)[1:] @ self.head.T


# ---------------------------------------------------------------- MLX affine quantisation

def quantize(weight, bits, group, dtype):
    """(packed u32, scales, biases) of a [out, in] matrix, one affine scale per `group` inputs."""
    out, width = weight.shape
    w = weight.float().reshape(out, width // group, group)
    low, high = w.amin(-1, keepdim=True), w.amax(-1, keepdim=True)
    top = 2 ** bits - 1
    negative = low.abs() > high.abs()
    step = ((high - low) / top).clamp_min(1e-7)
    step = torch.where(negative, step, -step)
    edge = torch.where(negative, low, high)
    zero = torch.round(edge / step)
    anchored = zero != 0
    scale = torch.where(anchored, edge / torch.where(anchored, zero, torch.ones_like(zero)), step)
    bias = torch.where(anchored, edge, torch.zeros_like(edge))
    codes = torch.round((w - bias) / scale).clamp(0, top).to(torch.int64).reshape(out, width)
    return pack(codes, bits), scale[..., 0].to(dtype), bias[..., 0].to(dtype)


def pack(codes, bits):
    """Codes as one little-endian bit stream per row, cut into u32 words."""
    stream = (codes[..., None] >> torch.arange(bits)) & 1
    words = stream.reshape(codes.shape[0], -1, 32) << torch.arange(32)
    return words.sum(-1).to(torch.uint32)


def unpack(words, bits):
    stream = (words.to(torch.int64)[..., None] >> torch.arange(32)) & 1
    codes = stream.reshape(words.shape[0], -1, bits) << torch.arange(bits)
    return codes.sum(-1)


def dequantize(words, scales, biases, bits):
    codes = unpack(words, bits)
    group = codes.shape[1] // scales.shape[1]
    spread = lambda t: t.float().repeat_interleave(group, dim=1)
    return spread(scales) * codes + spread(biases)


# ---------------------------------------------------------------- checkpoints

@dataclass
class Variant:
    layout: str = "flat"
    dtype: str = "bfloat16"
    layers: int = 1
    ffn: int = 32
    taps: list = field(default_factory=lambda: [0, 1, 2])
    rope: dict = field(default_factory=lambda: dict(rope_type="default", rope_theta=10000.0))
    layer_types: list | None = None
    window: int | None = None
    quantization: dict | None = None
    own_vocab: bool = False     # speculators: embed_tokens, lm_head, d2t, t2d in the file
    own_features: bool = False  # features come from the target instead of the shared random ones
    small_cache: bool = False   # also run with sink 2, window 6
    extra_configs: dict = field(default_factory=dict)  # name: changes; "same" ones must load alike
    same_configs: tuple = ()


YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=512,
            beta_fast=32.0, beta_slow=1.0)
VARIANTS = {
    "flat-f32": Variant(dtype="float32", layers=2, small_cache=True),
    "flat-bf16-unsorted": Variant(layers=2, taps=[2, 0, 1], own_features=True,
                                  rope=dict(rope_type="default", rope_theta=1000000.0)),
    "nested-f16": Variant(layout="nested", dtype="float16", same_configs=("flat",)),
    "mlx-8bit-gs64": Variant(ffn=128, quantization=dict(group_size=64, bits=8)),
    "mlx-4bit-gs32": Variant(layout="nested", dtype="float16", ffn=128, quantization=dict(
        group_size=32, bits=4, mode="affine")),
    "mlx-overrides": Variant(ffn=128, quantization={
        "group_size": 64, "bits": 4, "layers.0.self_attn.q_proj": {"group_size": 32, "bits": 8},
        "layers.0.mlp.down_proj": {"group_size": 128, "bits": 4}, "fc": False}),
    "speculators-own": Variant(layout="speculators", layers=2, own_vocab=True),
    "speculators-shared": Variant(layout="speculators", taps=[2, 0, 1]),
    "sliding": Variant(layers=2, window=8, small_cache=True, layer_types=["sliding_attention", "full_attention"],
                       extra_configs={"noncausal": {"dflash_config": {"causal": False}}, "causal": {"is_causal": True}}),
    "yarn": Variant(layout="nested", rope=YARN, same_configs=("flat",)),
}


def body_config(v):
    out = dict(model_type="qwen3", hidden_size=HIDDEN, num_hidden_layers=v.layers, intermediate_size=v.ffn,
               num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, head_dim=HEAD_DIM, hidden_act="silu",
               rms_norm_eps=EPS, vocab_size=VOCAB, max_position_embeddings=512, attention_bias=False,
               attention_dropout=0.0)
    if v.layer_types:
        out.update(layer_types=v.layer_types, sliding_window=v.window, use_sliding_window=True, max_window_layers=v.layers)
    return out


def old_rope(rope):
    scaling = {k: x for k, x in rope.items() if k != "rope_theta"}
    return dict(rope_theta=rope["rope_theta"], rope_scaling=None if rope["rope_type"] == "default" else scaling)


def config_of(v, layout):
    if layout == "speculators":
        return dict(
            architectures=["DFlashSpeculator"], speculators_model_type="dflash", speculators_version="0.5.0",
            block_size=BLOCK, draft_vocab_size=DRAFT_VOCAB if v.own_vocab else VOCAB, max_anchors=64,
            target_hidden_size=HIDDEN, aux_hidden_state_layer_ids=[l + 1 for l in v.taps], mask_token_id=MASK_ID,
            sliding_window_non_causal=False, sample_from_anchor=False, tie_word_embeddings=False, dtype=v.dtype,
            speculators_config=dict(
                algorithm="dflash", default_proposal_method="greedy",
                proposal_methods=[dict(proposal_type="greedy", speculative_tokens=BLOCK - 1)],
                verifier=dict(name_or_path="tied", architectures=["LlamaForCausalLM"])),
            transformer_layer_config=dict(**body_config(v), rope_parameters=v.rope))
    out = dict(architectures=["DFlashDraftModel"], **body_config(v), tie_word_embeddings=True, dtype=v.dtype)
    inner = dict(mask_token_id=MASK_ID, target_layer_ids=v.taps)
    if layout == "flat":
        out.update(**old_rope(v.rope), num_target_layers=TARGET_LAYERS, block_size=BLOCK)
    else:
        out.update(rope_parameters=v.rope)
        inner.update(block_size=BLOCK, num_target_layers=TARGET_LAYERS)
    out["dflash_config"] = inner
    if v.quantization:
        out["quantization"] = out["quantization_config"] = v.quantization
    return out


def shapes(v):
    yield "fc.weight", (HIDDEN, len(v.taps) * HIDDEN)
    yield "hidden_norm.weight", (HIDDEN,)
    yield "norm.weight", (HIDDEN,)
    for i in range(v.layers):
        at = f"layers.{i}."
        for name in ("input_layernorm", "post_attention_layernorm"):
            yield f"{at}{name}.weight", (HIDDEN,)
        for name in ("q_norm", "k_norm"):
            yield f"{at}self_attn.{name}.weight", (HEAD_DIM,)
        yield f"{at}self_attn.q_proj.weight", (HEADS * HEAD_DIM, HIDDEN)
        yield f"{at}self_attn.k_proj.weight", (KV_HEADS * HEAD_DIM, HIDDEN)
        yield f"{at}self_attn.v_proj.weight", (KV_HEADS * HEAD_DIM, HIDDEN)
        yield f"{at}self_attn.o_proj.weight", (HIDDEN, HEADS * HEAD_DIM)
        yield f"{at}mlp.gate_proj.weight", (v.ffn, HIDDEN)
        yield f"{at}mlp.up_proj.weight", (v.ffn, HIDDEN)
        yield f"{at}mlp.down_proj.weight", (HIDDEN, v.ffn)


def make_weights(v, seed, target_embed):
    """(tensors as stored, float32 tensors they mean)."""
    gen, dtype = rng(seed), DTYPES[v.dtype]
    stored, meant = {}, {}
    for name, shape in shapes(v):
        if len(shape) == 1:
            tensor = normal(gen, shape, 0.15, 1.0).to(dtype)
        else:
            tensor = normal(gen, shape, 1.2 * shape[1] ** -0.5).to(dtype)
        path = name.removesuffix(".weight")
        plan = v.quantization and len(shape) == 2 and v.quantization.get(path, v.quantization)
        if plan:
            words, scales, biases = quantize(tensor, plan["bits"], plan["group_size"], dtype)
            stored.update({name: words, f"{path}.scales": scales, f"{path}.biases": biases})
            meant[name] = dequantize(words, scales, biases, plan["bits"])
            assert (meant[name] - tensor.float()).abs().max() < 1.5 * scales.float().abs().max(), name
        else:
            stored[name], meant[name] = tensor, tensor.float()
    if v.own_vocab:
        # Not the target's own tables, so that a reader which takes those is found out.
        stored["embed_tokens.weight"] = (target_embed + normal(gen, target_embed.shape, 0.1)).to(dtype)
        stored["lm_head.weight"] = normal(gen, (DRAFT_VOCAB, HIDDEN), 0.25).to(dtype)
        reached = torch.tensor(sorted(gen.choice(TOKENIZER, size=DRAFT_VOCAB, replace=False).tolist()))
        stored["d2t"] = reached - torch.arange(DRAFT_VOCAB)
        stored["t2d"] = torch.zeros(VOCAB, dtype=torch.bool).index_fill(0, reached, True)
        meant.update({k: stored[k].float() for k in ("embed_tokens.weight", "lm_head.weight")})
    return stored, meant


# ---------------------------------------------------------------- goldens

def shared_inputs():
    gen, out, start = rng(500), {}, 0
    for n, (rows, width) in enumerate(CYCLES):
        start += rows
        out[f"{n}.features"] = normal(gen, (rows, 3 * HIDDEN), 1.0)
        out[f"{n}.ids"] = torch.tensor(random_ids(gen, 1, 3, TOKENIZER) + [MASK_ID] * (width - 1))
        out[f"{n}.start"] = torch.tensor([start])
    return out


def target_inputs(v, shared):
    """The same cycles with features that the target computes for `prompt`, taps in the listed order."""
    from transformers import LlamaForCausalLM

    model = LlamaForCausalLM.from_pretrained(TARGET, dtype=torch.float32, attn_implementation="eager").eval()
    ids = random_ids(rng(501), sum(n for n, _ in CYCLES), 3, TOKENIZER)
    _, taps = run(model, ids)
    rows = torch.cat([taps[l] for l in v.taps], dim=1).split([n for n, _ in CYCLES])
    own = {**shared, **{f"{n}.features": part for n, part in enumerate(rows)}}
    return own, {"prompt": torch.tensor(ids), **{f"{n}.features": part for n, part in enumerate(rows)}}


def run_cycles(raw, meant, inputs, embed, head, d2t, prefix="", **cache):
    draft, out = Draft(raw, meant, embed, head, **cache), {}
    for n in range(len(CYCLES)):
        projected, start, logits = draft.cycle(inputs[f"{n}.features"], inputs[f"{n}.ids"].tolist())
        assert start == int(inputs[f"{n}.start"])
        choice = logits.argmax(-1)
        out[f"{prefix}{n}.logits"] = logits
        out[f"{prefix}{n}.choices"] = choice if d2t is None else choice + d2t[choice]
        if prefix:
            out[f"{prefix}{n}.positions"] = torch.tensor(draft.context.positions)
        else:
            out[f"{n}.context"] = projected
    return out


def make_variant(name, v, seed, shared, target_embed):
    out = fresh_dir(OUT / name)
    raw = config_of(v, v.layout)
    stored, meant = make_weights(v, seed, target_embed)
    write_json(out / "config.json", raw)
    write_tensors(out / "model.safetensors", stored)
    embed = meant.get("embed_tokens.weight", target_embed)
    head = meant.get("lm_head.weight", target_embed)
    inputs, values = target_inputs(v, shared) if v.own_features else (shared, {})
    args = (meant, inputs, embed, head, stored.get("d2t"))
    values.update(run_cycles(raw, *args))
    if v.small_cache:
        values.update(run_cycles(raw, *args, prefix="small.", sink=2, window=6))
    if v.quantization:
        for path in ("fc", "layers.0.self_attn.q_proj", "layers.0.mlp.down_proj"):
            if f"{path}.scales" in stored:
                values[f"dequantized.{path}"] = meant[f"{path}.weight"][:4].clone()
    for extra, changes in v.extra_configs.items():
        other = {**raw, **changes, "dflash_config": {**raw["dflash_config"], **changes.get("dflash_config", {})}}
        write_json(out / f"config.{extra}.json", other)
        values.update({f"{extra}.{k}": t for k, t in run_cycles(other, *args).items() if not k.endswith("context")})
        assert not torch.equal(values[f"{extra}.0.logits"], values["0.logits"])
    for layout in v.same_configs:
        write_json(out / f"config.{layout}.json", config_of(v, layout))
        assert read_config(config_of(v, layout)) == read_config(raw)
    write_tensors(out / "golden.safetensors", values)
    print(f"{name}: logit std {values['0.logits'].std():.2f}, choices {values['0.choices'].tolist()}")


def check_rope():
    """The YaRN frequencies against transformers' own."""
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    config = LlamaConfig(hidden_size=HIDDEN, num_attention_heads=HEADS, head_dim=HEAD_DIM,
                         max_position_embeddings=2048, rope_parameters=dict(YARN))
    theirs, factor = ROPE_INIT_FUNCTIONS["yarn"](config, "cpu")
    mine, my_factor = frequencies(YARN, HEAD_DIM)
    assert torch.allclose(theirs, mine, rtol=1e-5) and abs(factor - my_factor) < 1e-9


if __name__ == "__main__":
    check_context_rule()
    check_rope()
    fresh_dir(OUT)
    table = load_file(TARGET / "model.safetensors")["model.embed_tokens.weight"]
    inputs = shared_inputs()
    write_tensors(OUT / "inputs.safetensors", inputs)
    for number, (variant, spec) in enumerate(VARIANTS.items()):
        make_variant(variant, spec, 600 + number, inputs, table)
    report(OUT)
