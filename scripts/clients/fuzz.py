"""Damaged requests: every answer is 2xx or 4xx, and the server answers properly afterwards.

Bodies are good ones, mutated by a seeded generator, over all POST routes. The same seed gives the same bodies.
"""

import argparse
import collections
import concurrent.futures
import copy
import http.client
import json
import os
import random
import urllib.parse

TOOL = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CHAT = {
    "model": None,
    "messages": [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": [{"type": "text", "text": "Hello"}]},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{\"city\": \"Prague\"}"}}
        ]},
        {"role": "tool", "tool_call_id": "c1", "content": "Sunny"},
        {"role": "user", "content": "And now?"},
    ],
    "max_tokens": 2,
    "temperature": 0.7,
    "top_p": 0.9,
    "top_k": 5,
    "min_p": 0.1,
    "seed": 1,
    "n": 1,
    "stop": ["END"],
    "logit_bias": {"5": 1.5},
    "logprobs": True,
    "top_logprobs": 2,
    "presence_penalty": 0.1,
    "frequency_penalty": 0.1,
    "tools": [{"type": "function", "function": {"name": "weather", "description": "Weather", "parameters": TOOL}}],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "stream": True,
    "stream_options": {"include_usage": True},
    "chat_template_kwargs": {"enable_thinking": False},
    "reasoning_effort": "low",
    "user": "u",
    "metadata": {"a": "b"},
}
SHAPED = {
    "messages": [{"role": "user", "content": "A trip as JSON"}],
    "max_tokens": 3,
    "response_format": {"type": "json_schema", "json_schema": {"name": "trip", "strict": True, "schema": TOOL}},
}
COMPLETION = {
    "model": None, "prompt": "One, two,", "max_tokens": 2, "temperature": 0, "stop": "END", "logprobs": 1, "n": 1,
    "seed": 3, "stream": False, "echo": False, "logit_bias": {"7": -1},
}
RESPONSE = {
    "model": None,
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "Hello"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]},
        {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "Sunny"},
    ],
    "instructions": "Be short.",
    "max_output_tokens": 2,
    "temperature": 0.2,
    "top_p": 0.9,
    "tools": [{"type": "function", "name": "weather", "parameters": TOOL, "strict": True}],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "text": {"format": {"type": "text"}},
    "reasoning": {"effort": "low", "summary": "auto"},
    "store": False,
    "stream": True,
    "metadata": {"a": "b"},
}
MESSAGE = {
    "model": None,
    "max_tokens": 2,
    "system": [{"type": "text", "text": "Be short.", "cache_control": {"type": "ephemeral"}}],
    "messages": [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": ""},
            {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Prague"}},
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "Sunny"}], "is_error": False},
            {"type": "text", "text": "And now?"},
        ]},
    ],
    "temperature": 0.5,
    "top_p": 0.9,
    "top_k": 4,
    "stop_sequences": ["END"],
    "stream": True,
    "metadata": {"user_id": "u"},
    "tools": [{"name": "weather", "description": "Weather", "input_schema": TOOL}],
    "tool_choice": {"type": "auto", "disable_parallel_tool_use": False},
    "thinking": {"type": "disabled"},
}
GOOD = [
    ("/v1/chat/completions", CHAT),
    ("/v1/chat/completions", SHAPED),
    ("/v1/completions", COMPLETION),
    ("/v1/responses", RESPONSE),
    ("/v1/messages", MESSAGE),
    ("/v1/messages/count_tokens", MESSAGE),
]
ODD = [
    None, True, False, 0, 1, -1, 1.5, 1e300, -1e300, 2**31, 2**53 + 1, 2**64, -(2**63), "", "x", "1", "null", "\u0000",
    "\ud83d\ude00", "é" * 300, "<|im_end|>", "{{ 7*7 }}", "{% raise %}", [], {}, [[]], [{}], [None], {"": None},
    {"type": "text"}, {"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}, {"$ref": "#"}, "auto", "a" * 5000,
]
LIMITS = {"max_tokens": 4, "max_completion_tokens": 4, "max_output_tokens": 4, "n": 2}


def places(value, path=()):
    """Paths of all values inside of a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


def mutate_value(rng, body):
    """Damages a body as a value."""
    for _ in range(rng.choice((1, 1, 2, 4, 6))):
        every = list(places(body))
        if not every:
            return body
        *path, key = rng.choice(every)
        parent = body
        for step in path:
            parent = parent[step]
        match rng.randrange(5):
            case 0:
                del parent[key]
            case 1:
                *other, name = rng.choice(every)
                try:
                    for step in (source := [body, *other])[1:]:
                        source[0] = source[0][step]
                    parent[key] = copy.deepcopy(source[0][name])
                except (KeyError, IndexError, TypeError):
                    pass
            case 2 if isinstance(parent, dict):
                parent[rng.choice(("type", "content", "role", "name", "schema", "\u202e", "x" * 300))] = copy.deepcopy(rng.choice(ODD))
            case _:
                parent[key] = copy.deepcopy(rng.choice(ODD))
    return bounded(body)


def bounded(body):
    """Answers stay few and short, so that most of the time goes into reading bodies."""
    if isinstance(body, dict):
        for key, most in LIMITS.items():
            if isinstance(body.get(key), (int, float)) and most < body[key] < 2**63:
                body[key] = most
    return body


def mutate_bytes(rng, data):
    """Damages a body as bytes."""
    data = bytearray(data)
    for _ in range(rng.choice((1, 2, 8))):
        at = rng.randrange(len(data)) if data else 0
        match rng.randrange(5):
            case 0:
                del data[at:]
            case 1:
                data[at : at + 1] = bytes([rng.randrange(256)])
            case 2:
                del data[at : at + rng.randrange(1, 20)]
            case 3:
                data[at:at] = rng.choice((b"[" * 200, b"{\"a\":" * 100, b"\xff\xfe", b"\x00", b",,", b"1e999", b"NaN"))
            case 4:
                data[at:at] = data[at : at + rng.randrange(1, 40)]
    return bytes(data)


def bodies(seed, count):
    """Routes with damaged bodies."""
    rng = random.Random(seed)
    for number in range(count):
        route, good = GOOD[number % len(GOOD)]
        body = mutate_value(rng, copy.deepcopy(good))
        data = json.dumps(body, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
        yield number, route, mutate_bytes(rng, data) if rng.random() < 0.5 else data


def send(url, requests):
    """Sends requests over one connection; gives what came back."""
    told = []
    address = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
    for number, route, data in requests:
        try:
            connection.request("POST", route, data, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
            status = answer.status
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            status, text = 599, repr(error).encode()
        told.append((number, route, data, status, text))
    return told


def good(url):
    """Whether a proper request is answered properly."""
    body = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4, "temperature": 0}
    [(_, _, _, status, text)] = send(url, [(0, "/v1/chat/completions", json.dumps(body).encode())])
    return (status, json.loads(text)["choices"][0]["message"]["content"]) if status == 200 else (status, text)


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--url", default=os.environ.get("DFLASH_URL", "http://127.0.0.1:8000"))
    args.add_argument("--count", type=int, default=10_000)
    args.add_argument("--seed", type=int, default=1)
    args.add_argument("--connections", type=int, default=8)
    args = args.parse_args()
    before = good(args.url)
    if before[0] != 200:
        raise SystemExit(f"fuzz: the server does not answer a proper request: {before}")
    requests = list(bodies(args.seed, args.count))
    shares = [requests[first :: args.connections] for first in range(args.connections)]
    with concurrent.futures.ThreadPoolExecutor(args.connections) as pool:
        told = [answer for share in pool.map(lambda share: send(args.url, share), shares) for answer in share]
    statuses = collections.Counter(status for *_, status, _ in told)
    wrong = [answer for answer in told if not (200 <= answer[3] < 300 or 400 <= answer[3] < 500)]
    # A stream has begun with 200: a failure shows as an event.
    wrong += [answer for answer in told if b'"server_error"' in answer[4] or b'"api_error"' in answer[4]]
    for number, route, data, status, text in wrong[:5]:
        print(f"fuzz: body {number} to {route} gave {status} {text[-300:]!r}\n  {data[:2000]!r}")
    after = good(args.url)
    print(f"fuzz: {len(told)} bodies, by status {dict(sorted(statuses.items()))}, {len(wrong)} wrong, seed {args.seed}")
    if wrong or after != before:
        raise SystemExit(f"fuzz: failed; a proper request gave {before} before and {after} after")


if __name__ == "__main__":
    main()
