"""Tokenizer and chat template goldens for dflash-text.

    python make_tokenizer.py SMOLLM2.gguf

Trains one small byte-level BPE per pre-tokenizer kind (those spelled like SentencePiece: see sentence.py) and
encodes the texts of texts.py with each of them and with the vocabulary of the given SmolLM2 GGUF (of which only ids
are stored). Templates: see templates.py.
"""

import json
import sys

import gguf
from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer

import sentence
from common import TEXT_DATA, fresh_dir, report, write_json
from texts import TEXTS

CHATML = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
NORMAL, CONTROL, USER_DEFINED = 1, 3, 4
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
QWEN35 = QWEN2.replace(r"?\p{L}+", r"?[\p{L}\p{M}]+").replace(r"[^\s\p{L}\p{N}]+", r"[^\s\p{L}\p{M}\p{N}]+")


def byte_level(use_regex):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)


def split_then_bytes(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), byte_level(False)])


KINDS = {
    # GGUF `pre` name: pre-tokenizer, normalizer, control tokens, user-defined tokens, extra tokens without merges
    "gpt-2": (byte_level(True), None, CHATML[:1], [], []),
    "llama-bpe": (split_then_bytes(LLAMA3), None,
                  ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"], [],
                  # No merge leads to these: only a whole-word look-up (`ignore_merges`) finds them.
                  ["Ġlossless", "Ġproposes", "Hello", "æĹ¥æľ¬", "ĠRust"]),
    "qwen2": (split_then_bytes(QWEN2), normalizers.NFC(), CHATML, ["<tool_call>", "</tool_call>", "<think>", "</think>"], []),
    "qwen35": (split_then_bytes(QWEN35), normalizers.NFC(), CHATML,
               ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"], []),
    "lfm2": (split_then_bytes(LLAMA3), None, ["<|pad|>", "<|startoftext|>", "<|endoftext|>", "<|im_start|>", "<|im_end|>",
             "<|tool_list_start|>", "<|tool_list_end|>", "<|tool_call_start|>", "<|tool_call_end|>",
             "<|tool_response_start|>", "<|tool_response_end|>"], [], ["Ġlossless", "Hello"]),
    "smollm": (pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level(True)]), None, CHATML, [], []),
}
SIZE = 800


def assemble(kind, vocab, merges, control, user_defined):
    """A tokenizer over a finished vocabulary."""
    pre, normalizer, *_ = KINDS[kind]
    tokenizer = Tokenizer(BPE(vocab=vocab, merges=merges, ignore_merges=kind in ("llama-bpe", "lfm2")))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre, decoders.ByteLevel()
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in control])
    tokenizer.add_tokens([AddedToken(t, normalized=False, special=False) for t in user_defined])
    return tokenizer


def train(kind):
    """Learns merges from the texts themselves; control tokens come after the vocabulary, except for smollm."""
    pre, normalizer, control, user_defined, extra = KINDS[kind]
    learner = Tokenizer(BPE())
    learner.pre_tokenizer = pre
    if normalizer:
        learner.normalizer = normalizer
    first = control if kind == "smollm" else []
    learner.train_from_iterator([t for _, t in TEXTS for _ in range(2)], BpeTrainer(
        vocab_size=SIZE, min_frequency=2, special_tokens=first, show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())))
    model = json.loads(learner.to_str())["model"]
    vocab = model["vocab"]
    merges = [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in model["merges"]]
    for token in extra:
        if token in vocab:
            # Keep the token, take away the way to it.
            merges = [m for m in merges if "".join(m) != token]
        vocab.setdefault(token, len(vocab))
    return assemble(kind, vocab, merges, control, user_defined), merges


def metadata(kind, tokenizer, merges):
    """What a GGUF file would say about this tokenizer, keys without the `tokenizer.ggml.` prefix."""
    _, _, control, user_defined, _ = KINDS[kind]
    vocab = tokenizer.get_vocab(with_added_tokens=True)
    tokens = sorted(vocab, key=vocab.get)
    assert [vocab[t] for t in tokens] == list(range(len(tokens)))
    kinds = [CONTROL if t in control else USER_DEFINED if t in user_defined else NORMAL for t in tokens]
    bos, eos = {"gpt-2": (0, 0), "llama-bpe": (0, 3), "qwen2": (0, 2), "qwen35": (0, 2), "lfm2": (1, 4),
                "smollm": (1, 2)}[kind]
    return dict(model="gpt2", pre=kind, tokens=tokens, token_type=kinds, merges=[" ".join(m) for m in merges],
                bos_token_id=vocab[control[bos]], eos_token_id=vocab[control[eos]], add_bos_token=kind in ("llama-bpe", "lfm2"))


def encode_all(tokenizer):
    """Ids of every text with control tokens recognised, and with their spelling taken as plain text."""
    out = {}
    for mode, as_text in (("special", False), ("plain", True)):
        tokenizer.encode_special_tokens = as_text
        out[mode] = [tokenizer.encode(text, add_special_tokens=False).ids for _, text in TEXTS]
    tokenizer.encode_special_tokens = False
    return out


def check_decoding(kind, tokenizer, ids):
    for (name, text), row in zip(TEXTS, ids["special"]):
        back = tokenizer.decode(row, skip_special_tokens=False)
        want = tokenizer.normalizer.normalize_str(text) if tokenizer.normalizer else text
        assert back == want, (kind, name, back)


def write_kind(out, kind, tokenizer, gguf_keys):
    """One tokenizer in both forms; the ids are those of the file as written."""
    place = fresh_dir(out / kind)
    tokenizer.save(str(place / "tokenizer.json"), pretty=False)
    write_json(place / "gguf.json", gguf_keys, indent=None)
    return encode_all(Tokenizer.from_file(str(place / "tokenizer.json")))


def smollm2(path):
    """The tokenizer that a SmolLM2 GGUF describes, and its chat template."""
    fields = gguf.GGUFReader(path).fields
    get = lambda key: fields[f"tokenizer.{key}"].contents()
    assert (get("ggml.model"), get("ggml.pre")) == ("gpt2", "smollm")
    tokens, kinds = get("ggml.tokens"), get("ggml.token_type")
    assert set(kinds) == {NORMAL, CONTROL}
    control = [t for t, k in zip(tokens, kinds) if k == CONTROL]
    merges = [tuple(m.split(" ")) for m in get("ggml.merges")]
    return assemble("smollm", {t: i for i, t in enumerate(tokens)}, merges, control, []), get("chat_template")


def main(path):
    out = fresh_dir(TEXT_DATA)
    ids = {}
    for kind in KINDS:
        tokenizer, merges = train(kind)
        ids[kind] = write_kind(out, kind, tokenizer, metadata(kind, tokenizer, merges))
        check_decoding(kind, tokenizer, ids[kind])
        used = len({i for row in ids[kind]["special"] for i in row})
        print(f"{kind}: {tokenizer.get_vocab_size()} tokens, {len(merges)} merges, {used} used")
    for kind, (tokenizer, keys) in {"gemma4": sentence.gemma4(), "llama-spm": sentence.llama_spm()}.items():
        ids[kind] = write_kind(out, kind, tokenizer, keys)
        print(f"{kind}: {tokenizer.get_vocab_size()} tokens")
    tokenizer, template = smollm2(path)
    ids["smollm2-135m"] = encode_all(tokenizer)
    check_decoding("smollm2-135m", tokenizer, ids["smollm2-135m"])
    texts = [dict(name=name, text=text) for name, text in TEXTS]
    lines = [json.dumps({**t, "ids": {k: {m: v[m][n] for m in v} for k, v in ids.items()}}, ensure_ascii=True)
             for n, t in enumerate(texts)]
    (out / "tokenizer_goldens.json").write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")

    from templates import make_template_goldens

    write_json(out / "template_goldens.json", make_template_goldens(template))
    report(out)


if __name__ == "__main__":
    main(sys.argv[1])
