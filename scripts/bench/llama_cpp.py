"""Baseline: plain greedy decoding and prefill of llama.cpp on the CPU, as one JSON line.

    pip install llama-cpp-python      # 0.3.36 was used; builds llama.cpp from source
    python llama_cpp.py MODEL.gguf [--threads 2] [--tokens 256] [--prefill 512] [--runs 3]

Steps are passes of 1 to 16 rows after 64 positions: with logits and argmax at every row, as verification needs
them, and without any logits. Decoding is timed from the first token after the prompt; end-of-text is ignored so that every run decodes the
same number of tokens. Prefill is one call with `--prefill` ids on an empty cache. Figures are medians.
"""

import argparse
import ctypes
import json
import os
import statistics
import sys
import time

# Two libraries of this name must not meet: this file is called llama_cpp too.
sys.path = [p for p in sys.path if os.path.abspath(p or ".") != os.path.dirname(os.path.abspath(__file__))]

import llama_cpp as lib
import numpy as np

PROMPT = ("<|im_start|>user\nWrite a long story about a lighthouse keeper and the sea.<|im_end|>\n"
          "<|im_start|>assistant\n")


STEPS = (1, 2, 4, 8, 16)


def cpu_name():
    for line in open("/proc/cpuinfo", encoding="utf-8"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown"


class Runner:
    def __init__(self, path, threads, context):
        self.llama = lib.Llama(path, n_ctx=context, n_batch=512, n_ubatch=512, n_threads=threads,
                               n_threads_batch=threads, verbose=False)
        self.ctx = self.llama.ctx
        self.vocab = self.llama.n_vocab()
        self.batch = lib.llama_batch_init(max(STEPS), 0, 1)

    def clear(self):
        lib.llama_memory_clear(lib.llama_get_memory(self.ctx), True)

    def feed(self, ids):
        """One forward over `ids`; the argmax after the last of them."""
        array = (lib.llama_token * len(ids))(*ids)
        code = lib.llama_decode(self.ctx, lib.llama_batch_get_one(array, len(ids)))
        if code != 0:
            raise RuntimeError(f"llama_decode returned {code}")
        logits = lib.llama_get_logits_ith(self.ctx, -1)
        return int(np.ctypeslib.as_array(ctypes.cast(logits, ctypes.POINTER(ctypes.c_float)), (self.vocab,)).argmax())

    def decode(self, prompt, tokens):
        self.clear()
        token, out = self.feed(prompt), []
        start = time.perf_counter()
        for _ in range(tokens):
            out.append(token)
            token = self.feed([token])
        return tokens / (time.perf_counter() - start), out

    def step(self, ids, position, logits):
        """Seconds of a pass over `ids` from `position` on, with the choice at every row when `logits`."""
        memory = lib.llama_get_memory(self.ctx)
        lib.llama_memory_seq_rm(memory, 0, position, -1)
        batch, n = self.batch, len(ids)
        batch.n_tokens = n
        for i, token in enumerate(ids):
            batch.token[i], batch.pos[i], batch.logits[i] = token, position + i, logits
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, 0
        start = time.perf_counter()
        if lib.llama_decode(self.ctx, batch) != 0:
            raise RuntimeError("llama_decode failed")
        if logits:
            rows = ctypes.cast(lib.llama_get_logits(self.ctx), ctypes.POINTER(ctypes.c_float))
            np.ctypeslib.as_array(rows, (n, self.vocab)).argmax(axis=1)
        else:
            lib.llama_synchronize(self.ctx)
        return time.perf_counter() - start

    def steps(self, ids, logits, runs=15):
        """Median milliseconds by rows."""
        self.clear()
        self.feed(ids[:64])
        times = {rows: [] for rows in STEPS}
        for _ in range(runs + 1):
            for rows in STEPS:
                times[rows].append(self.step(ids[64:64 + rows], 64, logits))
        return {str(rows): 1e3 * statistics.median(times[rows][1:]) for rows in STEPS}

    def prefill(self, ids):
        self.clear()
        start = time.perf_counter()
        self.feed(ids)
        return len(ids) / (time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--prefill", type=int, default=512)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()

    load_before = os.getloadavg()[0]
    runner = Runner(args.model, args.threads, 1024)
    prompt = runner.llama.tokenize(PROMPT.encode(), add_bos=False, special=True)
    runner.decode(prompt, 32)  # warm-up
    decoded, prefilled, first = [], [], None
    for _ in range(args.runs):
        rate, ids = runner.decode(prompt, args.tokens)
        first = first or ids
        if ids != first:
            raise RuntimeError("greedy runs differ")
        decoded.append(rate)
    long = (prompt + first) * (args.prefill // (len(prompt) + len(first)) + 1)
    runner.prefill(long[:args.prefill])
    for _ in range(args.runs):
        prefilled.append(runner.prefill(long[:args.prefill]))
    print(json.dumps({
        "engine": "llama.cpp", "version": f"llama-cpp-python {lib.__version__}", "model": os.path.basename(args.model),
        "cpu": cpu_name(), "threads": args.threads, "load_before": round(load_before, 2),
        "decode_tokens": args.tokens, "decode_tok_s": round(statistics.median(decoded), 1),
        "decode_runs": [round(x, 1) for x in decoded],
        "prefill_tokens": args.prefill, "prefill_tok_s": round(statistics.median(prefilled), 1),
        "prefill_runs": [round(x, 1) for x in prefilled],
        "steps_ms": runner.steps(long, True), "steps_without_logits_ms": runner.steps(long, False)}))


if __name__ == "__main__":
    main()
