"""What the prefix cache saves on the default pair, and whether it changes an answer.

    cargo build --release
    python scripts/bench/prefix.py target/release/dflash [times] [load] [memory]

times: time to the first token of a prompt of about 2,000 tokens: cold, repeated from memory, and from disk after a restart,
medians of five prompts each; the part of the prompt tokens of a chat of ten turns that were not read again.
load: eight clients with one long beginning and questions of their own for two minutes; every answer against that of a
server that keeps nothing, asked alone.
memory: the server's memory over 500 different prompts, when the cache has filled and at the end.
Standard library only; nothing else may run meanwhile.
"""

import json
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

BINARY, *PARTS = sys.argv[1:] or ["target/release/dflash"]
PROMPTS, TURNS, WORDS = 5, 10, 1960
CLIENTS, SECONDS, QUESTIONS = 8, 120, 40
DIFFERENT, SMALL = 500, "64MiB"


class Server:
    def __init__(self, folder, *flags):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        command = [BINARY, "serve", "--port", str(self.port), "--log-level", "off", "--prefix-cache-l2-dir", folder]
        self.process = subprocess.Popen([*command, *flags], stderr=subprocess.DEVNULL)
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health")
                return
            except OSError:
                assert self.process.poll() is None, "the server ended"
                time.sleep(0.05)

    def ask(self, messages, tokens=16):
        """First token after so many seconds, the text, and the usage."""
        # Without the bias the model says nothing to words drawn at random: 2 ends its answers.
        body = {"messages": messages, "max_tokens": tokens, "temperature": 0, "stream": True, "logit_bias": {"2": -100},
                "stream_options": {"include_usage": True}}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/chat/completions", json.dumps(body).encode(),
                                         {"content-type": "application/json"})
        began, first, text, usage = time.perf_counter(), None, "", None
        with urllib.request.urlopen(request) as answer:
            for line in answer:
                if not line.startswith(b"data: {"):
                    continue
                chunk = json.loads(line[6:])
                usage = chunk.get("usage") or usage
                for choice in chunk["choices"]:
                    piece = choice["delta"].get("content")
                    if piece:
                        first = first or time.perf_counter() - began
                        text += piece
        return first, text, usage

    def end(self):
        self.process.terminate()
        assert self.process.wait() == 0


def prompt(seed):
    words = ["river", "stone", "garden", "letter", "window", "bread", "signal", "copper", "winter", "market"]
    state, text = seed, []
    for _ in range(WORDS):
        state = (1_103_515_245 * state + 12_345) % 2**31
        text.append(words[state // 65_536 % len(words)])
    return [{"role": "user", "content": f"Text {seed}: {' '.join(text)}. How many words are there?"}]


def chat(server):
    """Prompt tokens of all turns but the first, those of them that came from the cache, and the answers."""
    messages, tokens, cached, said = [], 0, 0, []
    for turn in range(TURNS):
        messages.append({"role": "user", "content": f"Tell me something about the number {turn + 2}, in two sentences."})
        _, text, usage = server.ask(messages, 80)
        messages.append({"role": "assistant", "content": text})
        said.append(text)
        if turn:
            tokens += usage["prompt_tokens"]
            cached += usage["prompt_tokens_details"]["cached_tokens"]
    return tokens, cached, said


def times():
    with tempfile.TemporaryDirectory() as folder:
        server = Server(folder, "--no-prefix-cache")
        server.ask(prompt(99))
        cold = [server.ask(prompt(seed)) for seed in range(PROMPTS)]
        _, _, wanted = chat(server)
        server.end()
        server = Server(folder)
        server.ask(prompt(99))
        first = [server.ask(prompt(seed)) for seed in range(PROMPTS)]
        memory = [server.ask(prompt(seed)) for seed in range(PROMPTS)]
        tokens, cached, said = chat(server)
        server.end()
        size = sum(file.stat().st_size for file in pathlib.Path(folder).rglob("*.safetensors"))
        server = Server(folder)
        server.ask(prompt(99))
        disk = [server.ask(prompt(seed)) for seed in range(PROMPTS)]
        server.end()
    ms = {name: 1e3 * statistics.median(run[0] for run in runs)
          for name, runs in [("cold", cold), ("first", first), ("memory", memory), ("disk", disk)]}
    print(f"prompts of {cold[0][2]['prompt_tokens']} tokens, first token after (medians of {PROMPTS}):")
    print(f"  nothing kept {ms['cold']:7.1f} ms")
    for name in ["first", "memory", "disk"]:
        print(f"  {name:12} {ms[name]:7.1f} ms, {100 * ms[name] / ms['cold']:5.1f} % of that")
    print(f"chat of {TURNS} turns: {cached} of {tokens} prompt tokens kept, {100 * cached / tokens:.1f} %")
    print(f"files {size / 1e6:.1f} MB")
    same = all(run[1] == cold[index][1] for runs in [first, memory, disk] for index, run in enumerate(runs))
    print("all answers are those of a server that keeps nothing:", "yes" if same and said == wanted else "NO")


def load():
    shared = prompt(7)[0]["content"]
    questions = [[{"role": "system", "content": shared}, {"role": "user", "content": f"Tell me about the number {n}."}]
                 for n in range(QUESTIONS)]
    with tempfile.TemporaryDirectory() as folder:
        server = Server(folder, "--no-prefix-cache")
        alone = [server.ask(question, 40)[1] for question in questions]
        server.end()
        server = Server(folder, "--max-batch", str(CLIENTS))
        end, counts = time.monotonic() + SECONDS, []

        def client(number):
            asked, wrong, cached, at = 0, 0, 0, number
            while time.monotonic() < end:
                _, text, usage = server.ask(questions[at % QUESTIONS], 40)
                asked, wrong = asked + 1, wrong + (text != alone[at % QUESTIONS])
                cached += usage["prompt_tokens_details"]["cached_tokens"]
                at += 3
            counts.append((asked, wrong, cached))

        clients = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
        for thread in clients:
            thread.start()
        for thread in clients:
            thread.join()
        server.end()
    asked, wrong, cached = map(sum, zip(*counts))
    print(f"{CLIENTS} clients, {SECONDS} s: {asked} answers, {wrong} not those of a request alone, "
          f"{cached / asked:.0f} prompt tokens of each kept")


def memory():
    def resident():
        status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1e3

    with tempfile.TemporaryDirectory() as folder:
        server = Server(folder, "--prefix-cache-max-bytes", SMALL, "--prefix-cache-l2-max-bytes", SMALL)
        told = []
        for seed in range(DIFFERENT):
            server.ask([{"role": "user", "content": prompt(seed + 1000)[0]["content"][:1500]}], 2)
            if (seed + 1) % 100 == 0:
                told.append(f"{resident():.0f}")
        server.end()
    print(f"memory after 100, 200, ... {DIFFERENT} different prompts, at most {SMALL} of states: {', '.join(told)} MB")


for part in PARTS or ["times", "load", "memory"]:
    {"times": times, "load": load, "memory": memory}[part]()
