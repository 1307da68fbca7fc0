"""Small tokenizers spelled as SentencePiece spells: `\u2581` for a space, `<0xNN>` for a byte without a piece.

`gemma4`: BPE with listed merges over whole lines, no space put before a text. `llama-spm`: a SentencePiece model of the
BPE kind, trained by SentencePiece itself; its GGUF form has scores where the other has merges.
"""

import io
import json

import sentencepiece
from tokenizers import AddedToken, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer

from texts import TEXTS

BLANK = "\u2581"
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
LINES = [line for _, text in TEXTS for line in text.split("\n") if line and "<|" not in line and "\0" not in line]

GEMMA4_CONTROL = ["<pad>", "<eos>", "<bos>", "<|turn>", "<turn|>", "<|tool>", "<tool|>", "<|think|>"]
GEMMA4_SHOWN = ["<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>", '<|"|>']


def sentence_decoder(strip):
    steps = [decoders.Replace(BLANK, " "), decoders.ByteFallback(), decoders.Fuse()]
    return decoders.Sequence(steps + [decoders.Strip(" ", 1, 0)] * strip)


def bpe(vocab, merges):
    return Tokenizer(BPE(vocab=vocab, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))


def run_merges(char, longest):
    """All ways to put runs of one character together, as Gemma lists them: the longest run first."""
    return [(char * left, char * (n - left)) for n in range(longest, 1, -1) for left in range(n - 1, 0, -1)]


def learn(size):
    """Merges inside words; a word begins with its space, and lines are apart."""
    learner = Tokenizer(BPE())
    learner.normalizer = normalizers.Replace(" ", BLANK)
    learner.pre_tokenizer = pre_tokenizers.Split(BLANK, "merged_with_next")
    learner.train_from_iterator(LINES * 2, BpeTrainer(vocab_size=size, min_frequency=2, limit_alphabet=140, show_progress=False))
    model = json.loads(learner.to_str())["model"]
    merges = [tuple(m) for m in model["merges"] if set("".join(m)) != {BLANK}]
    return [t for t in model["vocab"] if set(t) != {BLANK}], merges


def gemma4():
    pieces, learned = learn(600)
    runs = {"\n": 12, BLANK: 12, "\t": 6}
    merges = [merge for char, longest in runs.items() for merge in run_merges(char, longest)] + learned
    runs = [char * n for char, longest in runs.items() for n in range(1, longest + 1)]
    tokens = GEMMA4_CONTROL[:3] + ["<unk>"] + GEMMA4_CONTROL[3:] + GEMMA4_SHOWN + BYTES + runs
    tokens += [t for t in pieces if t not in tokens]
    vocab = {token: id for id, token in enumerate(tokens)}
    # What was learned in one piece but is a control token has no way to it.
    merges = [m for m in merges if "".join(m) not in GEMMA4_CONTROL + GEMMA4_SHOWN]
    tokenizer = bpe(vocab, merges)
    tokenizer.normalizer = normalizers.Replace(" ", BLANK)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = sentence_decoder(strip=False)
    tokenizer.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in GEMMA4_CONTROL + ["<unk>"]])
    tokenizer.add_tokens([AddedToken(t, normalized=False, special=False) for t in GEMMA4_SHOWN])
    kinds = {**dict.fromkeys(GEMMA4_CONTROL, CONTROL), **dict.fromkeys(GEMMA4_SHOWN, USER_DEFINED), **dict.fromkeys(BYTES, BYTE),
             "<unk>": UNKNOWN}
    # llama.cpp's converter leaves out `pre`, and pads the vocabulary to the rows of the table.
    return tokenizer, dict(
        model="gemma4", tokens=tokens + ["[PAD0]", "[PAD1]"], token_type=[kinds.get(t, NORMAL) for t in tokens] + [UNUSED] * 2,
        merges=[" ".join(m) for m in merges], scores=[0.0] * (len(tokens) + 2), bos_token_id=vocab["<bos>"],
        eos_token_id=vocab["<turn|>"], unknown_token_id=vocab["<unk>"], add_bos_token=True, add_space_prefix=False)


def train_spm():
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES * 2), model_writer=model, model_type="bpe", vocab_size=900, byte_fallback=True,
        character_coverage=0.98, normalization_rule_name="identity", remove_extra_whitespaces=False, split_digits=True,
        allow_whitespace_only_pieces=True, max_sentence_length=100_000, num_threads=1, minloglevel=2)
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def merges_by_score(vocab, scores):
    """Every pair that makes up a piece, the best score first, then by id: how a `tokenizer.json` is made of such a model."""
    ways = [(-scores[id], id, vocab[piece[:at]], vocab[piece[at:]], piece[:at], piece[at:])
            for piece, id in vocab.items() for at in range(1, len(piece)) if piece[:at] in vocab and piece[at:] in vocab]
    return [way[4:] for way in sorted(ways)]


def spm_kind(model, id):
    tests = [(model.is_unknown, UNKNOWN), (model.is_control, CONTROL), (model.is_byte, BYTE)]
    return next((kind for test, kind in tests if test(id)), NORMAL)


def llama_spm():
    model = train_spm()
    ids = range(model.get_piece_size())
    tokens, scores = [model.id_to_piece(i) for i in ids], [model.get_score(i) for i in ids]
    kinds = [spm_kind(model, i) for i in ids]
    merges = merges_by_score({t: i for i, t in enumerate(tokens) if kinds[i] == NORMAL}, scores)
    tokenizer = bpe({t: i for i, t in enumerate(tokens)}, merges)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(BLANK), normalizers.Replace(" ", BLANK)])
    tokenizer.decoder = sentence_decoder(strip=True)
    tokenizer.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in ("<unk>", "<s>", "</s>")])
    check(model, tokenizer)
    return tokenizer, dict(model="llama", pre="default", tokens=tokens, token_type=kinds, scores=scores, bos_token_id=1, eos_token_id=2,
                           unknown_token_id=0, add_bos_token=True, add_space_prefix=True)


def check(model, tokenizer):
    """SentencePiece itself gives the same ids for every text."""
    tokenizer.encode_special_tokens = True
    for name, text in TEXTS:
        own, ours = model.encode(text), tokenizer.encode(text, add_special_tokens=False).ids
        assert own == ours, (name, own, ours)
    tokenizer.encode_special_tokens = False
