"""Pieces that several golden scripts share: places, seeded weights, goldens, file writing."""

import contextlib
import copy
import json
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TQDM_DISABLE", "1")

import numpy as np
import torch
from safetensors.torch import load_file, save_file

torch.set_num_threads(1)

ROOT = Path(__file__).resolve().parents[2]
MODELS_DATA = ROOT / "crates" / "dflash-models" / "tests" / "data"
TEXT_DATA = ROOT / "crates" / "dflash-text" / "tests" / "data"

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def fresh_dir(path):
    """An empty directory at `path`; whatever was there is removed."""
    path = Path(path)
    if path.exists():
        shutil.rmtree(path)
    path.mkdir(parents=True)
    return path


def rng(seed):
    return np.random.Generator(np.random.PCG64(seed))


def normal(gen, shape, std, mean=0.0):
    """A float32 tensor of normal deviates."""
    return torch.from_numpy((gen.standard_normal(shape) * std + mean).astype(np.float32))


def uniform(gen, shape, low, high):
    """A float32 tensor of uniform deviates."""
    return torch.from_numpy(gen.uniform(low, high, shape).astype(np.float32))


def random_ids(gen, length, low, high):
    return [int(i) for i in gen.integers(low, high, size=length)]


# ---------------------------------------------------------------- models

# What a family whose names or values differ puts in front of these: (pattern, maker of the values).
RULES = [
    (r"norm\w*\.weight$", lambda gen, shape: normal(gen, shape, 0.15, 1.0)),
    (r"(embed_tokens|lm_head)\.weight$", lambda gen, shape: normal(gen, shape, 0.25)),
    (r"\.bias$", lambda gen, shape: normal(gen, shape, 0.2)),
    (r"", lambda gen, shape: normal(gen, shape, 2.2 / shape[-1] ** 0.5 / 3)),
]


def seeded_state(model, seed, rules=()):
    """Weights large enough that logits are spread, small enough that rounding stays rounding."""
    gen, out = rng(seed), {}
    tied = model.config.get_text_config().tie_word_embeddings
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and tied:
            continue
        make = next(make for pattern, make in [*rules, *RULES] if re.search(pattern, name))
        out[name] = make(gen, tuple(tensor.shape))
    return out


def half_keys(model):
    """Makes eager attention of the model's code round keys and values to float16, as a K/V cache of halves does."""
    code = sys.modules[type(decoder(model).layers[0]).__module__]
    plain = code.eager_attention_forward
    if getattr(plain, "rounds", False):
        return

    def rounding(module, query, key, value, *args, **kwargs):
        return plain(module, query, key.half().to(key.dtype), value.half().to(value.dtype), *args, **kwargs)

    rounding.rounds = True
    code.eager_attention_forward = rounding


def load_state(model, state, dtype=torch.float32):
    """`model` with the weights of `state` (its own names) rounded to `dtype`, computing in float32, with keys and
    values as halves."""
    assert model.config.get_text_config()._attn_implementation == "eager"
    half_keys(model)
    missing, unexpected = model.load_state_dict({k: v.to(dtype).float() for k, v in state.items()}, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    model.tie_weights()
    return model.eval()


def decoder(model):
    """The module that owns the decoder layers, also inside a multimodal wrapper."""
    return getattr(model.model, "language_model", model.model)


def run(model, ids):
    """Logits of every row, and the residual stream after every decoder layer (before the final norm)."""
    taps = {}

    def keep(layer):
        def hook(_module, _inputs, output):
            taps[layer] = (output[0] if isinstance(output, tuple) else output)[0].clone()
        return hook

    handles = [layer.register_forward_hook(keep(i)) for i, layer in enumerate(decoder(model).layers)]
    with torch.no_grad():
        logits = model(torch.tensor([ids]), use_cache=False).logits[0]
    for handle in handles:
        handle.remove()
    return logits, taps


def golden(model, lengths, seed, low=3, with_taps=True):
    out = {}
    gen = rng(seed)
    for n, length in enumerate(lengths):
        ids = random_ids(gen, length, low, model.config.get_text_config().vocab_size)
        logits, taps = run(model, ids)
        out[f"{n}.ids"] = torch.tensor(ids, dtype=torch.int64)
        out[f"{n}.logits"] = logits
        if with_taps:
            for layer, tap in taps.items():
                out[f"{n}.tap.{layer}"] = tap
    return out


def router_margin(model, values):
    """The smallest gap between the last chosen and the first unchosen router logit, over all rows and layers."""
    margins = []

    def keep(module, inputs, output):
        weight = module.weight if hasattr(module, "weight") else module.proj.weight
        count = output[1].shape[-1]
        logits = output[0].reshape(-1, weight.shape[0])
        best = logits.topk(count + 1).values
        margins.append((best[:, -2] - best[:, -1]).min().item())

    routers = [m for m in model.modules() if type(m).__name__.endswith("Router")]
    handles = [m.register_forward_hook(keep) for m in routers]
    for n in range(sum(k.endswith(".ids") for k in values)):
        run(model, values[f"{n}.ids"].tolist())
    for handle in handles:
        handle.remove()
    return min(margins, default=None)


@contextlib.contextmanager
def double_precision():
    """Makes the explicit casts to float32 inside the classes of transformers casts to float64."""
    kept = torch.float32, torch.float, torch.Tensor.float
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double
    try:
        yield
    finally:
        torch.float32, torch.float, torch.Tensor.float = kept


def rounding_error(model, values):
    """Largest difference between the golden logits and those computed in float64 from the same weights."""
    exact, worst = copy.deepcopy(model).double(), 0.0
    for name in [k for k in values if k.endswith(".ids")]:
        with double_precision():
            logits, _ = run(exact, values[name].tolist())
        assert logits.dtype == torch.float64
        worst = max(worst, (logits - values[name.replace("ids", "logits")]).abs().max().item())
    return worst


def stepwise_gap(model, values, n):
    """Largest difference between the logits of sequence `n` and those of one token at a time through the cache."""
    cache, worst = None, 0.0
    for row, i in enumerate(values[f"{n}.ids"].tolist()):
        with torch.no_grad():
            out = model(torch.tensor([[i]]), cache=cache, use_cache=True)
        cache = out.cache
        worst = max(worst, (out.logits[0, 0] - values[f"{n}.logits"][row]).abs().max().item())
    return worst


LENGTHS = (1, 3, 2, 40)


def describe(name, model, values):
    """Prints whether the golden is worth comparing with; refuses one that is not."""
    last = len(LENGTHS) - 1
    logits = values[f"{last}.logits"]
    top = logits.topk(2).values
    margin, gap, rounding = router_margin(model, values), stepwise_gap(model, values, last), rounding_error(model, values)
    print(f"{name}: logit std {logits.std():.2f}, smallest top-2 margin {(top[:, 0] - top[:, 1]).min():.4f}, distinct "
          f"choices {logits.argmax(-1).unique().numel()} of {len(logits)}, router margin "
          f"{'-' if margin is None else f'{margin:.1e}'}, stepwise within {gap:.1e}, "
          f"rounding {rounding:.1e}")
    assert 0.8 < logits.std() < 4 and max(gap, rounding) < 2e-3 and (margin is None or margin > 1e-4), name


def write_variant(out, model, tensors, config, seed, name=None):
    """One directory of test data: config, stored tensors, and what `model` (the same weights) computes."""
    out = fresh_dir(out)
    write_json(out / "config.json", config)
    write_tensors(out / "model.safetensors", tensors)
    values = golden(model, LENGTHS, seed)
    write_tensors(out / "golden.safetensors", values)
    describe(name or f"{out.parent.name}/{out.name}", model, values)
    return values


def saved_by_transformers(model, dtype=torch.float32):
    """The config and the tensors that `save_pretrained` writes."""
    with tempfile.TemporaryDirectory() as scratch:
        # A copy, since a cast also rounds the RoPE frequencies.
        copy.deepcopy(model).to(dtype).save_pretrained(scratch)
        return json.loads(Path(scratch, "config.json").read_text()), load_file(Path(scratch, "model.safetensors"))


def old_schema(config):
    """The config as files of the 4.x era carry it: `rope_theta` and `rope_scaling` at the top, `torch_dtype`."""
    out = {k: v for k, v in config.items() if k not in ("rope_parameters", "dtype", "transformers_version")}
    rope = dict(config["rope_parameters"])
    out["rope_theta"] = rope.pop("rope_theta")
    if "partial_rotary_factor" in rope:
        out["partial_rotary_factor"] = rope.pop("partial_rotary_factor")
    kind = rope.pop("rope_type")
    # The oldest spelling of the scaling kind is `type`.
    out["rope_scaling"] = None if kind == "default" else {"type" if kind == "linear" else "rope_type": kind, **rope}
    if config["model_type"] == "llama" and out["head_dim"] == out["hidden_size"] // out["num_attention_heads"]:
        del out["head_dim"]
    if "num_local_experts" in out:
        out["num_experts"] = out.pop("num_local_experts")
    out["torch_dtype"] = config["dtype"]
    out["transformers_version"] = "4.46.0"
    return dict(sorted(out.items()))


def write_other_config(cls, directory, name, config, **kwargs):
    """A second config that says the same in another schema; checks that transformers takes it as the same model."""
    write_json(directory / f"{name}.json", config)
    config = cls.config_class.from_dict(config, attn_implementation="eager", **kwargs)
    model = cls.from_pretrained(directory, config=config, dtype=torch.float32).eval()
    values = load_file(directory / "golden.safetensors")
    n = len(LENGTHS) - 1
    assert torch.equal(run(model, values[f"{n}.ids"].tolist())[0], values[f"{n}.logits"]), directory / name


def check_loads(cls, directory, **kwargs):
    """That transformers reads the directory back and computes the golden from it."""
    model = cls.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager", **kwargs).eval()
    values = load_file(Path(directory) / "golden.safetensors")
    n = len(LENGTHS) - 1
    assert torch.equal(run(model, values[f"{n}.ids"].tolist())[0], values[f"{n}.logits"]), directory


# ---------------------------------------------------------------- files

def write_json(path, value, indent=2):
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    Path(path).write_text(text + "\n", encoding="utf-8")


def write_tensors(path, tensors):
    save_file({k: v.contiguous() for k, v in tensors.items()}, str(path))
    os.chmod(path, 0o644)


def report(root):
    """Print every file below `root` with its size."""
    files = [p for p in sorted(Path(root).rglob("*")) if p.is_file()]
    for p in files:
        print(f"{p.stat().st_size:9d}  {p.relative_to(ROOT)}")
    print(f"{sum(p.stat().st_size for p in files):9d}  total")
