#!/usr/bin/env python3
"""What it is worth that `match` tells policies the chance of a drafted token to be accepted, and not what became of it: the
same records replayed with labels and without (docs/experiments/draft-length.md).

    python3 bench/drafts/prompts.py --spec-bench question.jsonl --limit 6 > prompts.jsonl
    python3 experiments/draft_length/labels.py prompts.jsonl --bass build/release/bass
"""

import argparse
import itertools
import json
import math
import statistics
import tempfile

from engine import run_bass
from replays import MACHINES, add_trace_options, write_trace

NAMES = ("amx-7.8b-q4", "h200-7.8b-int8")
BATCHES = (1, 8, 32)
POLICIES = ("goodput", "survival")
RUNS = ((400, 10), (4000, 4))  # steps of a replay, seeds


def speeds(options, trace, machine, n_steps, seed, labels):
    """{(policy, batch): tokens/s}"""
    text = run_bass(options.bass, ["bench", "replay", "--trace", trace, "--costs", MACHINES, "--machine", machine, "--batch",
                                   ",".join(map(str, BATCHES)), "--draft-length", ",".join(POLICIES), "--verify", "rejection",
                                   "--steps", n_steps, "--seed", seed, "--json", *([] if labels else ["--no-labels"])])
    return {(row["policy"], row["batch"]): row["tokens_per_s"] for row in map(json.loads, text.splitlines())}


def gains(options, trace, n_steps, n_seeds):
    """{(policy, batch): [tokens/s with labels over tokens/s without]}, of all machines and seeds."""
    found = {}
    for machine, seed in itertools.product(NAMES, range(1, n_seeds + 1)):
        with_labels, without = (speeds(options, trace, machine, n_steps, seed, labels) for labels in (True, False))
        for key in itertools.product(POLICIES, BATCHES):
            found.setdefault(key, []).append(with_labels[key] / without[key])
    return found


def estimate(ratios):
    """Mean and half of its 95 % interval."""
    return f"{statistics.fmean(ratios):.3f} ± {1.96 * statistics.stdev(ratios) / math.sqrt(len(ratios)):.3f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_trace_options(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        trace = write_trace(options, 0.8, directory, arguments=["--verify", "match"])
        columns = [gains(options, trace, n_steps, n_seeds) for n_steps, n_seeds in RUNS]
    print("| policy | sequences | " + " | ".join(f"{n_steps} steps, {n_seeds} seeds" for n_steps, n_seeds in RUNS) + " |")
    print("|---|---|" + "---|" * len(RUNS))
    for policy, batch in itertools.product(POLICIES, BATCHES):
        cells = " | ".join(estimate(column[policy, batch]) for column in columns)
        print(f"| `{policy}` | {batch} | {cells} |")


if __name__ == "__main__":
    main()
