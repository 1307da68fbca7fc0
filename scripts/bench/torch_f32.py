"""Baseline: a Llama of a GGUF file in PyTorch, weights dequantised to f32, as one JSON line.

    pip install -r requirements.txt
    python torch_f32.py MODEL.gguf [--threads 2] [--tokens 64] [--prefill 512] [--runs 3]

The forward pass as the model's definition has it, with a K/V cache and PyTorch's own attention: what one gets without
kernels of one's own. The same steps as `llama_cpp.py`.
"""

import argparse
import json
import statistics
import time

import gguf
import torch
import torch.nn.functional as F

STEPS = (1, 2, 4, 8, 16)


class Llama:
    def __init__(self, path, context):
        reader = gguf.GGUFReader(path)
        key = lambda name: reader.fields[name].contents()
        if key("general.architecture") != "llama":
            raise SystemExit("torch_f32: only files of architecture llama")
        self.layers, self.hidden = key("llama.block_count"), key("llama.embedding_length")
        self.heads, self.kv_heads = key("llama.attention.head_count"), key("llama.attention.head_count_kv")
        self.dim, self.eps = self.hidden // self.heads, key("llama.attention.layer_norm_rms_epsilon")
        self.w = {t.name: torch.from_numpy(gguf.quants.dequantize(t.data, t.tensor_type).copy()).float()
                  for t in reader.tensors}
        self.head = self.w.get("output.weight", self.w["token_embd.weight"])
        angles = torch.outer(torch.arange(context), key("llama.rope.freq_base") **
                             (-torch.arange(0, self.dim, 2) / self.dim))
        self.cos, self.sin = angles.cos(), angles.sin()
        self.cache = torch.zeros(self.layers, 2, self.kv_heads, context, self.dim)

    def norm(self, x, name):
        return F.rms_norm(x, (self.hidden,), self.w[name], self.eps)

    def rotate(self, x, start):
        """GGUF stores the rows of q and k so that neighbouring columns turn together."""
        cos, sin = self.cos[start:start + x.shape[1]], self.sin[start:start + x.shape[1]]
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)

    def attention(self, x, layer, start, mask):
        n, w = x.shape[0], lambda name: self.w[f"blk.{layer}.attn_{name}.weight"]
        split = lambda y, heads: y.view(n, heads, self.dim).transpose(0, 1)
        q = self.rotate(split(x @ w("q").T, self.heads), start)
        keys, values = self.cache[layer]
        keys[:, start:start + n] = self.rotate(split(x @ w("k").T, self.kv_heads), start)
        values[:, start:start + n] = split(x @ w("v").T, self.kv_heads)
        seen = (t[None, :, :start + n] for t in (keys, values))
        out = F.scaled_dot_product_attention(q[None], *seen, attn_mask=mask, enable_gqa=True)
        return out[0].transpose(0, 1).reshape(n, -1) @ w("output").T

    def forward(self, ids, start, last=False):
        """The choices at all rows, or at the last one."""
        x = self.w["token_embd.weight"][ids]
        n = len(ids)
        mask = None if n == 1 else torch.ones(n, start + n, dtype=torch.bool).tril(start)
        for layer in range(self.layers):
            name = f"blk.{layer}"
            x = x + self.attention(self.norm(x, f"{name}.attn_norm.weight"), layer, start, mask)
            y = self.norm(x, f"{name}.ffn_norm.weight")
            gate, up, down = (self.w[f"{name}.ffn_{part}.weight"] for part in ("gate", "up", "down"))
            x = x + (F.silu(y @ gate.T) * (y @ up.T)) @ down.T
        x = self.norm(x[-1:] if last else x, "output_norm.weight")
        return (x @ self.head.T).argmax(-1)


def timed(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def decode(model, prompt, tokens):
    token, position = model.forward(prompt, 0, last=True), len(prompt)
    start, out = time.perf_counter(), []
    for _ in range(tokens):
        out.append(int(token))
        token = model.forward(token, position)
        position += 1
    return tokens / (time.perf_counter() - start), out


@torch.inference_mode()
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--prefill", type=int, default=512)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    model = Llama(args.model, 1024)
    ids = torch.arange(100, 100 + args.prefill)
    rate, first = decode(model, ids[:16], args.tokens)
    rates = [decode(model, ids[:16], args.tokens)[0] for _ in range(args.runs)]
    model.forward(ids[:64], 0)
    steps = {rows: [] for rows in STEPS}
    for _ in range(8):
        for rows in STEPS:
            steps[rows].append(timed(lambda: model.forward(ids[64:64 + rows], 64)))
    prefill = [timed(lambda: model.forward(ids, 0, last=True)) for _ in range(args.runs)]
    print(json.dumps({
        "engine": "PyTorch f32", "version": f"torch {torch.__version__}", "first_ids": first[:16],
        "decode_tokens": args.tokens, "decode_tok_s": statistics.median(rates),
        "steps_ms": {str(rows): 1e3 * statistics.median(times[1:]) for rows, times in steps.items()},
        "prefill_tok_s": args.prefill / statistics.median(prefill)}))


if __name__ == "__main__":
    main()
