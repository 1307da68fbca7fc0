"""Loads every GGUF file of the test data in llama.cpp and compares its logits with the goldens.

Not needed to make the data; wants `llama-cpp-python` 0.3.36.
"""

import sys

import numpy as np
from llama_cpp import Llama
from safetensors.numpy import load_file

from common import MODELS_DATA


def logits(model, ids):
    model.reset()
    model.eval(ids)
    return model.scores[: len(ids)].copy()


def gap(path):
    """Largest and mean difference of the logits, over all sequences, and how often the choice is the same."""
    values = load_file(path.with_suffix(".golden.safetensors"))
    # Keys and values cached in f32: the default of f16 would hide small faults.
    model = Llama(str(path), n_ctx=64, n_batch=64, n_threads=1, logits_all=True, type_k=0, type_v=0, verbose=False)
    worst, same, rows, total = 0.0, 0, 0, 0.0
    for n in range(3):
        want = values[f"{n}.logits"]
        got = logits(model, values[f"{n}.ids"].tolist())
        worst = max(worst, float(np.abs(got - want).max()))
        total += float(np.abs(got - want).mean(axis=1).sum())
        same += int((got.argmax(-1) == want.argmax(-1)).sum())
        rows += len(want)
    return worst, total / rows, same, rows


if __name__ == "__main__":
    for path in sorted((MODELS_DATA / "gguf").glob("*.gguf")):
        if sys.argv[1:] and not any(path.name.startswith(a) for a in sys.argv[1:]):
            continue
        if path.with_suffix(".golden.safetensors").exists():
            worst, mean, same, rows = gap(path)
            print(f"{path.name}: largest difference {worst:.5f}, mean {mean:.5f}, same choice {same} of {rows}", flush=True)
