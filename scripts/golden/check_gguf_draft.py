"""Decodes with a GGUF target and a GGUF draft in llama.cpp, greedily, and compares with the target alone.

    python check_gguf_draft.py TARGET.gguf DRAFT.gguf [EVAL.json] [--width 8] [--prompts 4] [--tokens 128]

EVAL.json holds prompts as ids (`prompts[].prompt_ids`), as the one beside the default draft does. Says how many tokens a cycle
commits; fails when llama.cpp does not load the draft, or when the text is another than the target's own. Needs nothing but
`pip install llama-cpp-python` (0.3.36); the calls that llama.cpp makes between target and draft have no names of their own there.
"""

import argparse
import ctypes
import json
from pathlib import Path

import llama_cpp as lc
import numpy as np

LIB = lc.llama_cpp._lib
DEFAULT_EVAL = Path(__file__).parents[2] / "models" / "smollm2-135m-dflash" / "eval.json"


def extra(name, kinds, arguments, result):
    """A function of llama-ext.h, which only C++ can name: `kinds` are its arguments in the name that the compiler gives it."""
    function = getattr(LIB, f"_Z{len(name)}{name}{kinds}")
    function.argtypes, function.restype = arguments, result
    return function


POINTER, U32, FLOATS = ctypes.c_void_p, ctypes.c_uint32, ctypes.POINTER(ctypes.c_float)
tapped_layers = extra("llama_model_target_layer_ids", "PK11llama_model", [POINTER], ctypes.POINTER(ctypes.c_int32))
tapped_count = extra("llama_model_target_layer_ids_n", "PK11llama_model", [POINTER], U32)
tap = extra("llama_set_embeddings_layer_inp", "P13llama_contextjb", [POINTER, U32, ctypes.c_bool], None)
tapped = extra("llama_get_embeddings_layer_inp", "P13llama_contextj", [POINTER, U32], FLOATS)


def load(path):
    model = lc.llama_model_load_from_file(str(path).encode(), lc.llama_model_default_params())
    if not model:
        raise SystemExit(f"{path}: llama.cpp does not load it")
    return model


def context(model, threads, other=None):
    params = lc.llama_context_default_params()
    params.n_ctx, params.n_batch, params.n_ubatch = 1024, 512, 512
    params.n_threads = params.n_threads_batch = threads
    if other:
        params.ctx_other = other
    made = lc.llama_init_from_model(model, params)
    if not made:
        raise SystemExit("llama.cpp makes no context")
    return made


class Runner:
    """A model with its cache."""

    def __init__(self, model, ctx):
        self.ctx, self.memory = ctx, lc.llama_get_memory(ctx)
        self.vocab = lc.llama_vocab_n_tokens(lc.llama_model_get_vocab(model))

    def run(self, start, ids=None, rows=None):
        """Decodes ids, or rows of features, at the positions from `start` on; the choices of the ids come back."""
        count = len(ids if rows is None else rows)
        batch = lc.llama_batch_init(count, 0 if rows is None else rows.shape[1], 1)
        batch.n_tokens = count
        for i in range(count):
            if rows is None:
                batch.token[i] = ids[i]
            batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0], batch.logits[i] = start + i, 1, 0, rows is None
        if rows is not None:
            ctypes.memmove(batch.embd, rows.ctypes.data, rows.nbytes)
        code = lc.llama_decode(self.ctx, batch)
        lc.llama_batch_free(batch)
        if code:
            raise SystemExit(f"llama.cpp fails to decode: {code}")
        if rows is None:
            logits = (np.ctypeslib.as_array(lc.llama_get_logits_ith(self.ctx, i), (self.vocab,)) for i in range(count))
            return [int(row.argmax()) for row in logits]

    def cut(self, length):
        lc.llama_memory_seq_rm(self.memory, 0, length, -1)


def plain(target, prompt, tokens):
    target.cut(0)
    ids = target.run(0, prompt)[-1:]
    while len(ids) < tokens:
        ids += target.run(len(prompt) + len(ids) - 1, ids[-1:])
    return ids


def drafted(target, draft, layers, hidden, mask, prompt, tokens, width):
    """The ids, and how many cycles they took."""

    def features(count):
        parts = [np.ctypeslib.as_array(tapped(target.ctx, layer), (count, hidden)) for layer in layers]
        return np.ascontiguousarray(np.concatenate(parts, axis=1), dtype=np.float32)

    target.cut(0), draft.cut(0)
    ids, start, cycles = target.run(0, prompt)[-1:], len(prompt), 0
    draft.run(0, rows=features(len(prompt)))
    while len(ids) < tokens:
        block = [ids[-1]] + draft.run(start, ids[-1:] + [mask] * (width - 1))[1:]
        draft.cut(start)
        choices = target.run(start, block)
        commit = 1
        while commit < width and block[commit] == choices[commit - 1]:
            commit += 1
        rows = features(width)[:commit]
        target.cut(start + commit)
        draft.run(start, rows=rows)
        ids, start, cycles = ids + choices[:commit], start + commit, cycles + 1
    return ids[:tokens], cycles, len(ids) - 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("target")
    parser.add_argument("draft")
    parser.add_argument("eval", nargs="?", default=DEFAULT_EVAL)
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--prompts", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    quiet = lc.llama_log_callback(lambda *_: None)
    lc.llama_log_set(quiet, ctypes.c_void_p(0))
    lc.llama_backend_init()
    target_model, draft_model = load(args.target), load(args.draft)
    target_ctx = context(target_model, args.threads)
    target, draft = Runner(target_model, target_ctx), Runner(draft_model, context(draft_model, args.threads, target_ctx))
    lc.llama_set_causal_attn(draft.ctx, False)
    layers = [tapped_layers(draft_model)[i] for i in range(tapped_count(draft_model))]
    for layer in layers:
        tap(target.ctx, layer, True)
    hidden = lc.llama_model_n_embd(target_model)
    mask = lc.llama_vocab_mask(lc.llama_model_get_vocab(draft_model))
    same, total, cycles = 0, 0, 0
    prompts = [prompt["prompt_ids"] for prompt in json.loads(Path(args.eval).read_text())["prompts"][: args.prompts]]
    for prompt in prompts:
        ids, took, committed = drafted(target, draft, layers, hidden, mask, prompt, args.tokens, args.width)
        same += ids == plain(target, prompt, args.tokens)
        total, cycles = total + committed, cycles + took
    print(f"taps at the inputs of layers {layers}, mask {mask}, width {args.width}")
    print(f"{total} tokens in {cycles} cycles: {total / cycles:.3f} a cycle; {same} of {len(prompts)} texts are the target's own")
    raise SystemExit(same != len(prompts))


if __name__ == "__main__":
    main()
