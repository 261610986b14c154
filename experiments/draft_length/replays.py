#!/usr/bin/env python3
"""Policies on machines that one does not have: replays traces of drafts with the costs of machines.json and prints what
came out, as the tables of docs/experiments/draft-length.md.

    python3 bench/drafts/prompts.py --spec-bench question.jsonl --limit 12 > prompts.jsonl
    python3 experiments/draft_length/replays.py prompts.jsonl --bass build/release/bass

A cell is a machine, a temperature (0 and 0.8), a task (one of four, or all of them in one batch) and a number of
sequences. Every run knows what steps cost, and draws its times with 5 % of noise.
"""

import argparse
import collections
import itertools
import json
import math
import pathlib
import tempfile

from analysis import geometric_mean
from engine import draft_of, run_bass

TASKS = ("code", "chat", "summarization", "translation")
TEMPERATURES = (0.8, 0.0)
BATCHES = (1, 4, 8, 32, 128, 256)
POLICIES = ("goodput", "survival", "bass", "bandit", "gradient")
KEPT = ("machine", "temperature", "task", "batch", "policy", "tokens_per_s", "tokens_per_round")
MACHINES = pathlib.Path(__file__).with_name("machines.json")


def traced_prompts(path):
    """Those of the four tasks, named by them."""
    prompts = [json.loads(line) for line in open(path, encoding="utf-8")]
    return [{**{key: value for key, value in prompt.items() if key != "task"}, "id": f"{prompt['task']}/{number}"}
            for number, prompt in enumerate(prompts) if prompt.get("task") in TASKS]


def speeds(lines):
    """{(machine, temperature, task, batch): {policy: tokens/s}}"""
    cells = collections.defaultdict(dict)
    for line in lines:
        cells[line["machine"], line["temperature"], line["task"], line["batch"]][line["policy"]] = line["tokens_per_s"]
    return dict(cells)


def best_fixed(cell):
    """(tokens/s, length) of the best fixed length."""
    return max((speed, int(policy.split(":")[1])) for policy, speed in cell.items() if policy.startswith("fixed:"))


def summary_table(cells):
    """A row for each policy: against regular decoding and the best fixed length of each cell."""
    rows = ["| policy | least, against regular | mean | least, against the best fixed length | mean |", "|---|---|---|---|---|"]
    for policy in POLICIES:
        regular = [cell[policy] / cell["fixed:0"] for cell in cells.values()]
        best = [cell[policy] / best_fixed(cell)[0] for cell in cells.values()]
        rows.append(f"| `{policy}` | {min(regular):.3f} | {geometric_mean(regular):.2f} | {min(best):.3f} | "
                    f"{geometric_mean(best):.3f} |")
    return "\n".join(rows)


def batch_table(cells):
    """A row for each machine, temperature and batch: means over the tasks, against regular decoding."""
    columns = {"best fixed": lambda cell: best_fixed(cell)[0],
               **{policy: lambda cell, policy=policy: cell[policy] for policy in POLICIES}}
    rows = [f"| machine | temperature | sequences | {' | '.join(columns)} |", "|---" * (3 + len(columns)) + "|"]
    for group in sorted({(machine, temperature, batch) for machine, temperature, _, batch in cells}):
        chosen = [cell for (machine, temperature, _, batch), cell in cells.items() if (machine, temperature, batch) == group]
        means = [geometric_mean([value(cell) / cell["fixed:0"] for cell in chosen]) for value in columns.values()]
        rows.append(f"| {' | '.join(map(str, group))} | {' | '.join(f'{mean:.2f}' for mean in means)} |")
    return "\n".join(rows)


def over_algorithm_1(cells):
    """Geometric mean of goodput over bass where anything should be drafted, and how many cells that are."""
    ratios = [cell["goodput"] / cell["bass"] for cell in cells.values() if best_fixed(cell)[1] > 0]
    return (geometric_mean(ratios) if ratios else math.nan), len(ratios)


def draft_arguments(options, draft=None):
    """draft: a file; None: that of the options"""
    draft = draft or draft_of(options)
    return [] if draft is None else ["-d", draft]


def write_trace(options, temperature, directory, draft=None, arguments=()):
    """Of the prompts that the options name (add_trace_options). The file."""
    trace = pathlib.Path(directory) / f"{temperature}.trace"
    trace.write_text(run_bass(options.bass, ["bench", "trace", "-m", options.model, "--prompts", "-", "--temperature",
                                             temperature, "--max-tokens", options.max_tokens,
                                             *draft_arguments(options, draft), *arguments],
                              traced_prompts(options.prompts)), encoding="utf-8")
    return trace


def add_trace_options(parser, **prompts):
    parser.add_argument("prompts", help="of bench/drafts/prompts.py", **prompts)
    parser.add_argument("--bass", default="bass", help="the program")
    parser.add_argument("-m", "--model", default="smollm2")
    parser.add_argument("-d", "--draft", default=None, metavar="FILE", help="default: the one that comes with smollm2")
    parser.add_argument("--max-tokens", type=int, default=96, metavar="N", help="traced a prompt (default: %(default)s)")


def replay(options, directory):
    for temperature in TEMPERATURES:
        trace = write_trace(options, temperature, directory)
        for machine, by_task in itertools.product(json.loads(MACHINES.read_text())["machines"], (["--by-task"], [])):
            found = run_bass(options.bass, ["bench", "replay", "--trace", trace, "--costs", MACHINES, "--machine", machine,
                                            "--batch", ",".join(map(str, BATCHES)), "--draft-length", ",".join(POLICIES),
                                            *by_task, "--json"])
            for line in found.splitlines():
                yield {**json.loads(line), "temperature": temperature}


def rounded(value):
    return float(f"{value:.6g}") if isinstance(value, float) else value


def results_of(options):
    """A row for each policy in each cell."""
    if options.results is not None and options.results.exists():
        return [json.loads(line) for line in options.results.read_text(encoding="utf-8").splitlines()]
    with tempfile.TemporaryDirectory() as directory:
        rows = [{key: rounded(row[key]) for key in KEPT} for row in replay(options, directory)]
    if options.results is not None:
        options.results.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_trace_options(parser, nargs="?")
    parser.add_argument("--results", type=pathlib.Path, default=None, metavar="FILE.jsonl",
                        help="the figures go there, too; a file that exists is read instead of replaying anything")
    options = parser.parse_args()
    if options.prompts is None and (options.results is None or not options.results.exists()):
        parser.error("give the prompts, or --results with a file that has the figures")
    cells = speeds(results_of(options))
    ratio, n = over_algorithm_1(cells)
    print(f"{len(cells)} cells\n\n{summary_table(cells)}\n\n{batch_table(cells)}\n\n"
          f"`goodput` over `bass` in the {n} cells whose best fixed length is above 0: {ratio:.2f}")


if __name__ == "__main__":
    main()
