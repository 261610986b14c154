#!/usr/bin/env python3
"""How near the simulator comes: measures policies on a cell's prompts (`bass bench policies`), traces the same prompts, and
replays each of them once with what the engine has found out about the costs of steps in those very runs.

    python3 experiments/draft_length/predict.py -d models/smollm2-135m-draft.gguf --bass build/release/bass \\
        --spec-bench question.jsonl --task chat --batch 1,8 --temperature 0.8

With --machines the costs are those of costs.py. Where others work on the machine its speed has changed since: that is in
the first ratio, but not in the last one, of what drafting gains.
"""

import argparse
import json
import os
import pathlib
import statistics
import tempfile

from cells import Cell, load_prompts, prompts_of
from engine import add_engine_options, bench_policies, n_generated, run_bass


def trace(options, cell, prompts, path):
    lines = run_bass(options.bass, ["bench", "trace", "-m", options.model, "-d", options.draft, "--prompts", "-", "--seed", 1,
                                    "--temperature", cell.temperature, "--max-tokens", n_generated(options, cell),
                                    "--ignore-eos"], prompts)
    with open(path, "w", encoding="utf-8") as file:
        file.write(lines)


def own_cache(folder):
    """Makes programs keep costs in a folder of their own, beside the models that the user has."""
    default = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "bass"
    own = pathlib.Path(folder) / "bass"
    own.mkdir()
    for model in default.glob("*.gguf"):
        (own / model.name).symlink_to(model)
    os.environ["XDG_CACHE_HOME"] = folder
    return own / "costs"


def kept_costs(folder):
    """The file of model and draft, not that of regular decoding."""
    files = [path for path in folder.glob("*.json") if "no draft" not in path.read_text(encoding="utf-8")]
    return max(files, key=lambda path: path.stat().st_mtime)


def replay(options, cell, path, costs):
    """{policy: tokens/s}. costs: the options that say them"""
    n_replays = 5  # with --steps 0 a replay is as short as the trace
    found = {}
    for seed in range(n_replays):
        text = run_bass(options.bass, ["bench", "replay", "--trace", path, *costs, "--batch", cell.batch, "--steps", 0,
                                       "--draft-length", ",".join(options.policies), "--verify", "block", "--seed", seed,
                                       "--json"])
        for row in map(json.loads, text.splitlines()):
            found.setdefault(row["policy"], []).append(row["tokens_per_s"])
    return {policy: statistics.fmean(speeds) for policy, speeds in found.items()}


def compare(options, cell, by_task, costs_folder):
    prompts = prompts_of(cell, by_task, 0)
    measured = {}
    for row in bench_policies(options, cell, prompts, ["off", *options.policies], options.rounds):
        measured.setdefault(row["policy"], []).append(row["tokens_per_s"])
    costs = ["--costs", options.machines, "--machine", options.machine]
    if options.machines is None:
        costs = ["--costs", kept_costs(costs_folder)]
    path = costs_folder.parent / "a.trace"
    trace(options, cell, prompts, path)
    predicted = replay(options, cell, path, costs)
    for policy, speeds in measured.items():
        name = "fixed:0" if policy == "off" else policy
        yield {"cell": cell.name, "policy": policy, "predicted": predicted[name], "measured": statistics.median(speeds),
               "ratio": predicted[name] / statistics.median(speeds),
               "predicted_gain": predicted[name] / predicted["fixed:0"],
               "measured_gain": statistics.median(a / b for a, b in zip(speeds, measured["off"], strict=True))}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add_engine_options(parser)
    add("--machines", default=None, metavar="MACHINES.json", help="default: what the runs tell")
    add("--machine", default="", metavar="NAME", help="this one, as costs.py called it")
    add("--task", default="chat")
    add("--batch", default="1,8", metavar="N,...")
    add("--temperature", type=float, default=0.8)
    add("--policies", default="fixed:2,fixed:4,bass,goodput", metavar="P,...")
    add("--rounds", type=int, default=3, metavar="N")
    options = parser.parse_args()
    options.policies = options.policies.split(",")
    by_task = load_prompts(options.spec_bench)
    print("| cell | policy | tokens/s predicted | measured | ratio | over regular, predicted | measured | ratio |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        costs_folder = own_cache(folder)
        for batch in map(int, options.batch.split(",")):
            for row in compare(options, Cell(options.task, batch, options.temperature), by_task, costs_folder):
                print(f"| {row['cell']} | {row['policy']} | {row['predicted']:.0f} | {row['measured']:.0f} | "
                      f"{row['ratio']:.2f} | {row['predicted_gain']:.2f} | {row['measured_gain']:.2f} | "
                      f"{row['predicted_gain'] / row['measured_gain']:.2f} |", flush=True)


if __name__ == "__main__":
    main()
