"""Pieces that several golden scripts share: places, seeded weights, file writing."""

import json
import os
import shutil
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch
from safetensors.torch import save_file

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


def random_ids(gen, length, low, high):
    return [int(i) for i in gen.integers(low, high, size=length)]


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
