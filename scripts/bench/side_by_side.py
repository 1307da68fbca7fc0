"""dflash, llama.cpp and PyTorch f32 on one GGUF file, in turn, as a Markdown table.

    cargo build --release -p dflash --example pair_bench
    pip install -r scripts/bench/requirements.txt      # llama.cpp is built from source
    python scripts/bench/side_by_side.py MODEL.gguf [--rounds 3] [--threads 2] [--no-torch]

Engines take turns, one process each, so that a slow minute of a shared host does not fall on one of them; figures
are medians over the rounds of the medians inside. `requantise.py` makes files of the same weights in other formats.
A round takes about 35 seconds for a model of 135 million weights on two cores.
"""

import argparse
import datetime
import hashlib
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
FLAGS = ("avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16", "amx_int8")
ROWS = ("1", "2", "4", "8", "16")


def command_lines(args):
    target = Path(os.environ.get("CARGO_TARGET_DIR", HERE.parents[1] / "target"))
    python, threads = [sys.executable], ["--threads", str(args.threads)]
    commands = {
        "dflash": [str(target / "release/examples/pair_bench"), str(args.model), "--json"],
        "llama.cpp": python + [str(HERE / "llama_cpp.py"), str(args.model), "--runs", "1"] + threads,
        "PyTorch f32": python + [str(HERE / "torch_f32.py"), str(args.model), "--runs", "1"] + threads,
    }
    if args.no_torch:
        del commands["PyTorch f32"]
    return commands


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"side_by_side: {' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def median(results, *path):
    """Over the rounds; None where an engine has no such figure."""
    values = []
    for result in results:
        for key in path:
            result = result.get(key, {})
        if result != {}:
            values.append(result)
    return statistics.median(values) if values else None


def row(name, results, path, digits):
    values = [median(runs, *path) for runs in results.values()]
    return f"| {name} | " + " | ".join("" if v is None else f"{v:,.{digits}f}" for v in values) + " |"


def machine(threads):
    info = open("/proc/cpuinfo", encoding="utf-8").read()
    field = lambda name: next((line.split(":", 1)[1].strip() for line in info.splitlines()
                               if line.startswith(name)), "unknown")
    flags = [flag for flag in FLAGS if flag in field("flags").split()]
    return f"{field('model name')}, family {field('cpu family')} model {field('model')}, {os.cpu_count()} logical cores, " \
           f"{threads} threads; {', '.join(flags)}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--no-torch", action="store_true")
    args = parser.parse_args()
    commands = command_lines(args)
    results = {name: [] for name in commands}
    for _ in range(args.rounds):
        for name, command in commands.items():
            results[name].append(run(command))

    sha = hashlib.sha256(args.model.read_bytes()).hexdigest()[:12]
    versions = ", ".join(dict.fromkeys(f"{name} ({runs[0]['version']})" for name, runs in results.items()))
    print(f"{args.model.name} (sha256 {sha}…), {datetime.date.today()}. {machine(args.threads)}. {versions}. dflash on "
          f"`{results['dflash'][0]['backend']}`, reading {median(results['dflash'], 'read_gb_s'):.1f} GB/s. "
          f"Rounds: {args.rounds}.\n")
    print("| | " + " | ".join(results) + " |")
    print("| --- |" + " ---: |" * len(results))
    print(row("plain decoding, tok/s", results, ["decode_tok_s"], 1))
    print(row("prefill of 512, tok/s", results, ["prefill_tok_s"], 0))
    for rows in ROWS:
        print(row(f"step of {rows} with choices, ms", results, ["steps_ms", rows], 2))
    for rows in ROWS:
        print(row(f"step of {rows} without logits, ms", results, ["steps_without_logits_ms", rows], 2))


if __name__ == "__main__":
    main()
