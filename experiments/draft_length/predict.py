#!/usr/bin/env python3
"""How near the simulator comes: traces a cell's prompts, replays each of them once with the costs that costs.py has
measured on this machine, and runs the same with `bass generate`, rounds alternated. Where others work on the machine,
its speed has changed since: that is in the first ratio, but not in the last one, of what drafting gains.

    python3 experiments/draft_length/predict.py --machines machines.json --machine here -d models/smollm2-135m-draft.gguf \\
        --bass build/release/bass --spec-bench question.jsonl --task chat --batch 1,8 --temperature 0.8
"""

import argparse
import json
import statistics
import tempfile

from cells import Cell, load_prompts, prompts_of
from engine import add_engine_options, generate, run_bass


def trace(options, cell, prompts, path):
    lines = run_bass(options.bass, ["bench", "trace", "-m", options.model, "-d", options.draft, "--prompts", "-", "--seed", 1,
                                    "--temperature", cell.temperature, "--max-tokens", options.max_tokens], prompts)
    with open(path, "w", encoding="utf-8") as file:
        file.write(lines)


def replay(options, cell, path):
    """{policy: tokens/s}"""
    n_replays = 5  # with --steps 0 a replay is as short as the trace
    found = {}
    for seed in range(n_replays):
        text = run_bass(options.bass, ["bench", "replay", "--trace", path, "--costs", options.machines, "--machine",
                                       options.machine, "--batch", cell.batch, "--steps", 0, "--draft-length",
                                       ",".join(options.policies), "--verify", "block", "--seed", seed, "--json"])
        for row in map(json.loads, text.splitlines()):
            found.setdefault(row["policy"], []).append(row["tokens_per_s"])
    return {policy: statistics.fmean(speeds) for policy, speeds in found.items()}


def compare(options, cell, by_task):
    prompts = prompts_of(cell, by_task, 0)
    with tempfile.NamedTemporaryFile(suffix=".trace") as file:
        trace(options, cell, prompts, file.name)
        predicted = replay(options, cell, file.name)
    measured = {}
    for number in range(options.rounds):
        for policy in ("off", *options.policies):
            result = generate(options, cell, prompts, policy, seed=1 + number)
            measured.setdefault(policy, []).append(result["timing"]["decode_tokens_per_s"])
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
    add("--machines", required=True, metavar="MACHINES.json")
    add("--machine", required=True, metavar="NAME", help="this one, as costs.py called it")
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
    for batch in map(int, options.batch.split(",")):
        for row in compare(options, Cell(options.task, batch, options.temperature), by_task):
            print(f"| {row['cell']} | {row['policy']} | {row['predicted']:.0f} | {row['measured']:.0f} | {row['ratio']:.2f} | "
                  f"{row['predicted_gain']:.2f} | {row['measured_gain']:.2f} | "
                  f"{row['predicted_gain'] / row['measured_gain']:.2f} |", flush=True)


if __name__ == "__main__":
    main()
