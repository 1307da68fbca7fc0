"""Runs under the Python that has mlx-lm: quantises a checkpoint, or computes logits of one.

    python quantize_mlx.py quantize SOURCE TARGET SETTINGS   (JSON: bits, group_size, overrides by module path)
    python quantize_mlx.py logits DIRECTORY OUTPUT TYPE      (ids of golden.safetensors there; TYPE: stored or float32)
"""

import json
import shutil
import sys
from pathlib import Path

import mlx.core as mx
from mlx_lm.utils import load_model, quantize_model, save_config, save_model

mx.set_default_device(mx.cpu)


def predicate(model, overrides):
    own = getattr(model, "quant_predicate", None)

    def choose(path, module):
        if path in overrides:
            return overrides[path]
        return own(path, module) if own else True

    return choose


def quantize(source, target, settings):
    model, config = load_model(source)
    choose = predicate(model, settings.get("overrides", {}))
    model, config = quantize_model(model, config, settings["group_size"], settings["bits"], quant_predicate=choose)
    save_model(target, model)
    save_config(config, target / "config.json")
    (target / "model.safetensors.index.json").unlink()


def logits(directory, output, kind):
    model, _ = load_model(directory)
    if kind == "float32":
        model.set_dtype(mx.float32)
    values = mx.load(str(directory / "golden.safetensors"))
    names = [k for k in values if k.endswith(".ids")]
    out = {k.replace("ids", "logits"): model(values[k][None])[0].astype(mx.float32) for k in names}
    mx.save_safetensors(str(output), out)


if __name__ == "__main__":
    task, first, second = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    if task == "quantize":
        shutil.rmtree(second, ignore_errors=True)
        quantize(first, second, json.loads(sys.argv[4]))
    else:
        logits(first, second, sys.argv[4])
