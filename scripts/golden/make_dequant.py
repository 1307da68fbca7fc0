"""Raw blocks of every GGUF format and of MLX affine quantisation, with the float32 values they mean.

Writes `dequant.safetensors` and `dequant.json` into the test data of dflash-models. GGUF values come from
the `gguf` package; MLX ones from the quantizer in make_draft.py.
"""

import gguf
import numpy as np
import torch

from common import DTYPES, MODELS_DATA, normal, rng, write_json, write_tensors
from make_draft import dequantize, quantize

Q = gguf.GGMLQuantizationType
# Byte offsets of the f16 fields of a block: they get ordinary values, every other byte is random.
HALVES = {Q.Q8_0: [0], Q.Q4_0: [0], Q.Q4_1: [0, 2], Q.Q5_0: [0], Q.Q5_1: [0, 2], Q.Q2_K: [80, 82], Q.Q3_K: [108],
          Q.Q4_K: [0, 2], Q.Q5_K: [0, 2], Q.Q6_K: [208]}
BLOCKS = {32: 8, 256: 3}


def random_blocks(fmt, gen):
    elements, size = gguf.GGML_QUANT_SIZES[fmt]
    raw = gen.integers(0, 256, size=(BLOCKS[elements], size), dtype=np.uint8)
    for at in HALVES[fmt]:
        scale = (gen.uniform(0.002, 0.05, size=len(raw)) * gen.choice([-1, 1], size=len(raw))).astype(np.float16)
        raw[:, at:at + 2] = scale.view(np.uint8).reshape(-1, 2)
    # Extremes of the codes: one block of zero bytes, one of 255, with their scales left alone.
    for block, byte in ((0, 0), (1, 255)):
        code = np.ones(size, dtype=bool)
        for at in HALVES[fmt]:
            code[at:at + 2] = False
        raw[block, code] = byte
    return raw.reshape(-1)


def half_values(fmt, gen):
    """Normals, both zeros, subnormals and the largest finite value."""
    patterns = {Q.F16: [0x0000, 0x8000, 0x0001, 0x83FF, 0x7BFF, 0x0400],
                Q.BF16: [0x0000, 0x8000, 0x0001, 0x807F, 0x7F7F, 0x0080]}
    raw = gguf.quants.quantize((gen.standard_normal(64) * 3).astype(np.float32), fmt).view(np.uint16)
    raw[:6] = patterns[fmt]
    return raw.view(np.uint8).reshape(-1)


def gguf_set(tensors, index):
    for n, fmt in enumerate([Q.F16, Q.BF16, *HALVES]):
        raw = (random_blocks if fmt in HALVES else half_values)(fmt, rng(700 + n))
        values = gguf.quants.dequantize(raw.view(np.float16) if fmt == Q.F16 else raw, fmt)
        values = values.astype(np.float32).reshape(-1)
        assert np.isfinite(values).all(), fmt
        tensors[f"{fmt.name}.raw"] = torch.from_numpy(raw.copy())
        tensors[f"{fmt.name}.values"] = torch.from_numpy(values.copy())
        elements, size = gguf.GGML_QUANT_SIZES[fmt]
        index["gguf"][fmt.name] = dict(ggml_type=int(fmt), block_elements=elements, block_bytes=size, elements=len(values))


def mlx_set(tensors, index):
    gen = rng(750)
    source = normal(gen, (2, 384), 1.0)
    # wholly positive, wholly negative and all-zero groups
    source[0, :128] = source[0, :128].abs() + 0.5
    source[0, 128:256] = -source[0, 128:256].abs() - 0.5
    source[0, 256:] = 0.0
    tensors["mlx.source"] = source
    for bits in (2, 3, 4, 5, 6, 8):
        for group in (32, 64, 128):
            # scales in another float type for every group size, so that all three are read
            dtype = {32: "float32", 64: "bfloat16", 128: "float16"}[group]
            words, scales, biases = quantize(source, bits, group, DTYPES[dtype])
            name = f"mlx.b{bits}.g{group}"
            tensors.update({f"{name}.weight": words, f"{name}.scales": scales, f"{name}.biases": biases,
                            f"{name}.values": dequantize(words, scales, biases, bits)})
            index["mlx"][name] = dict(bits=bits, group_size=group, scales=dtype)


if __name__ == "__main__":
    tensors, index = {}, {"gguf": {}, "mlx": {}}
    gguf_set(tensors, index)
    mlx_set(tensors, index)
    write_tensors(MODELS_DATA / "dequant.safetensors", tensors)
    write_json(MODELS_DATA / "dequant.json", index)
    print({k: v["elements"] for k, v in index["gguf"].items()}, len(index["mlx"]), "mlx combinations")
