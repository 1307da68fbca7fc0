"""Writes the prompts' part of docs/performance.md from runs of `dflash benchmark`.

    python scripts/bench/prompts.py RUN [ORACLE_RUN ...]

RUN and the others are folders that `dflash benchmark --out` has made: one on a suite, and some with `--oracle`. What
stands between the two markers in docs/performance.md is replaced.
"""

import json
import pathlib
import re
import statistics
import sys

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "performance.md"
BEGIN, END = "<!-- prompts: scripts/bench/prompts.py -->", "<!-- end of prompts -->"


def summary(folder):
    return json.loads((pathlib.Path(folder) / "summary.json").read_text())


def table(head, rows):
    align = ["---"] + ["---:"] * (len(head) - 1)
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, align, *rows])


def number(value, digits=2):
    return "" if value is None else f"{value:.{digits}f}"


def categories(run):
    def row(name, category):
        return [
            name,
            str(category["prompts"]),
            number(category["plain_tok_s"], 0),
            number(category["dflash_tok_s"], 0),
            number(category["speedup"]),
            number(category["speedup_min"]),
            number(category["speedup_max"]),
            number(category.get("ngram_speedup")),
            number(category["tokens_per_cycle"]),
            number(category["ceiling"]),
            "yes" if category["identical"] else "NO",
        ]

    head = ["category", "prompts", "plain tok/s", "dflash tok/s", "speedup", "lowest", "highest", "copy alone",
            "ids/cycle", "ceiling", "identical"]
    rows = [row(name, category) for name, category in run["categories"].items()]
    return table(head, [*rows, row("all", run["all"])])


def acceptance(run):
    positions = run["acceptance_by_position"][:8]
    return table(
        ["position in the block", *(str(p["position"]) for p in positions)],
        [
            ["verified", *(f"{p['verified']:,}" for p in positions)],
            ["accepted with all before", *(number(p["rate"]) for p in positions)],
        ],
    )


def costs(run):
    rows = run["costs"]
    return table(
        ["rows", *(str(r["rows"]) for r in rows)],
        [
            ["pass of the target, ms", *(number(r["verify_ms"]) for r in rows)],
            ["block of the draft, ms", *(number(r["draft_ms"]) for r in rows)],
        ],
    )


def oracles(runs):
    by = {}
    for run in runs:
        rate = float(re.search(r"[\d.]+", run["label"]).group())
        target = re.search(r"(BF16|Q\d\w*)\.gguf", run["pair"]["target"]).group(1)
        by.setdefault((target, rate), []).append(run["all"])
    rows = []
    for (target, rate), found in sorted(by.items()):
        median = lambda key: statistics.median(one[key] for one in found)
        share = statistics.median(one["speedup"] / one["ceiling"] for one in found)
        rows.append([target, str(rate), number(median("tokens_per_cycle")), number(median("speedup")),
                     number(median("ceiling")), number(share)])
    return table(["target", "right per position", "ids/cycle", "speedup", "ceiling", "of the ceiling"], rows)


def text(run, oracle_runs):
    split, band = run["time_split_s"], run["bandwidth"]
    whole = sum(split.values())
    parts = ", ".join(f"{name} {100 * seconds / whole:.1f} %" for name, seconds in split.items())
    verdict = "all ids identical" if run["all"]["identical"] else "IDS DIFFER"
    memory = ", ".join(f"{leg} {gb:.2f} GB" for leg, gb in run["peak_memory_gb"].items())
    config = run["config"]
    parts_of_page = [
        f"Suite `{config['suite']}`, {run['all']['prompts']} prompts, {config['max_tokens']} tokens at most, each answer "
        f"{config['repeat']} times a leg, {run.get('timestamp', '')[:10]}: **{verdict}**.",
        categories(run),
        f"Time with the draft: {parts}. Peak memory: {memory}. Reading, of {band['ceiling_gb_s']:.0f} GB/s: plain "
        f"{band['plain_fraction']:.2f}, with the draft {band['dflash_fraction']:.2f}.",
        acceptance(run),
        "The step costs that the policy and the ceilings of this run went by:",
        costs(run),
    ]
    if oracle_runs:
        parts_of_page += [
            "**ORACLE: a scripted draft, not a model**, right with the given probability at every position, while the "
            "draft model runs for its time (`--suite smoke --no-eos --max-tokens 256 --oracle RATE`; costs measured at the "
            "start of every run, medians of the runs):",
            oracles(oracle_runs),
        ]
    return "\n\n".join(parts_of_page)


def main():
    run, *others = [summary(folder) for folder in sys.argv[1:]]
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n\n{text(run, others)}\n\n{END}{after}")


if __name__ == "__main__":
    main()
