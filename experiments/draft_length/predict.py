#!/usr/bin/env python3
"""How near the simulator comes: measures policies on a cell's prompts (`bass bench policies`), traces the same prompts, and
replays each policy with what such steps took in engines beside those that are predicted, all in turns of milliseconds, as
the machine's speed changes: mean seconds by the rows of a step, and what the draft model's passes took.

    python3 experiments/draft_length/predict.py -d models/smollm2-135m-draft.gguf --bass build/release/bass \\
        --spec-bench question.jsonl --task chat --batch 1,8 --temperature 0.8

Steps' costs come from the machine, so what is tested is all else: which drafts policies choose, how much of them is
accepted, and what steps come of that. The table says for each where a difference is from: tokens of a sequence's step,
or seconds of it.

With --machines the costs are those of costs.py. Where others work on the machine its speed has changed since: that is in
the first ratio, but not in the last one, of what drafting gains.
"""

import argparse
import itertools
import json
import math
import os
import pathlib
import statistics
import sys
import tempfile

from cells import Cell, load_prompts, prompts_of
from engine import add_engine_options, bench_policies, draft_arguments, n_generated, run_bass


N_TRACES = 3  # of each prompt: what is sampled once may be easy or hard by chance
MAX_DRAFTS = 32  # Algorithm 1 goes so far
N_REPLAYS = 5  # with --steps 0 a replay is as short as the trace


def traces(options, cell, prompts, folder):
    """Files, each with all prompts once, as they are measured in a round."""
    n_traces = N_TRACES if cell.temperature > 0 else 1
    text = run_bass(options.bass, ["bench", "trace", "-m", options.model, *draft_arguments(options, cell), "--prompts", "-",
                                   "--seed", 1, "--max-drafts", MAX_DRAFTS, "--temperature", cell.temperature,
                                   "--max-tokens", n_generated(options, cell), "-n", n_traces, "--ignore-eos"], prompts)
    header, *sequences = text.splitlines(keepends=True)
    paths = [folder / f"{number}.trace" for number in range(n_traces)]
    for number, path in enumerate(paths):
        path.write_text(header + "".join(sequences[number::n_traces]), encoding="utf-8")
    return paths


def own_cache(folder):
    """Makes programs keep costs in a folder of their own, beside the models that the user has."""
    default = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "bass"
    own = folder / "bass"
    own.mkdir()
    for model in default.glob("*.gguf"):
        (own / model.name).symlink_to(model)
    os.environ["XDG_CACHE_HOME"] = str(folder)
    return own / "costs"


def kept_costs(folder):
    """What the runs with the draft found out."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime)]
    texts = [text for text in texts if "no draft" not in text]
    if not texts:
        sys.exit("predict.py: the runs were too short to learn what steps cost; raise --max-tokens or --rounds")
    return json.loads(texts[-1])


def measured_costs(rows, kept, batch):
    """Of a machine, for `bass bench replay`. Policies believe in typical times (docs/architecture.md); what runs take is their
    mean. Contexts are those of the runs, so attention is in the steps."""
    by_size = {}
    for size in (size for row in rows for size in row["explanation"]["prediction"]["by_rows"]):
        by_size.setdefault(size["rows"][0], []).append(size)
    costs = {"step_seconds": [[weighted_mean(sizes, "mean_rows"), weighted_mean(sizes, "ms") / 1e3]
                              for _, sizes in sorted(by_size.items())]}
    believed = {2**size: seconds for size, seconds in enumerate(kept["draft_step_seconds"]) if seconds > 0}
    # The mean of passes that read nothing but the last tokens, most of them for a full batch, says how slow all are.
    passes = [row["explanation"]["prediction"] for row in rows if row["policy"].startswith("fixed:")]
    passes = [found["draft_pass_ms"] / 1e3 for found in passes if found["draft_passes"] > 0]
    if believed:
        nearest = believed[min(believed, key=lambda n: abs(math.log2(n) - math.floor(math.log2(batch))))]
        slowness = statistics.fmean(passes) / nearest if passes else 1
        costs["draft_pass_seconds"] = [[1.5 * n if n > 1 else 1, seconds * slowness] for n, seconds in believed.items()]
        costs["catch_up_seconds"] = kept["catch_up_seconds"] * slowness
    return costs


def weighted_mean(sizes, key):
    return sum(size["steps"] * size[key] for size in sizes) / sum(size["steps"] for size in sizes)


def replay(options, cell, paths, costs):
    """{policy: rows}. costs: the options that say them"""
    found = {}
    for path, seed in itertools.product(paths, range(N_REPLAYS)):
        text = run_bass(options.bass, ["bench", "replay", "--trace", path, *costs, "--batch", cell.batch, "--steps", 0,
                                       "--draft-length", ",".join(options.policies), "--verify", "block", "--seed", seed,
                                       "--json"])
        for row in map(json.loads, text.splitlines()):
            found.setdefault(row["policy"], []).append(row)
    return found


def compare(options, cell, by_task, folder, costs_folder):
    prompts = prompts_of(cell, by_task, 0)
    policies = ["off", *options.policies]
    bench_policies(options, cell, prompts, policies)  # so that costs are known, as in replays
    rows = bench_policies(options, cell, prompts, 2 * policies, options.rounds, ["--explain-speculation"])
    measured, telling = {}, []  # of each policy an engine that is predicted, and one that tells what steps cost
    for place, row in enumerate(rows):
        if place // len(policies) % 2 == 0:
            measured.setdefault(row["policy"], []).append(row)
        else:
            telling.append(row)
    costs = ["--costs", options.machines, "--machine", options.machine]
    if options.machines is None:
        costs = ["--costs", folder / "costs.json"]
        costs[1].write_text(json.dumps(measured_costs(telling, kept_costs(costs_folder), cell.batch)), encoding="utf-8")
    replayed = replay(options, cell, traces(options, cell, prompts, folder), costs)

    def predicted(policy, key):
        return statistics.fmean(row[key] for row in replayed["fixed:0" if policy == "off" else policy])

    for policy, found in measured.items():
        tokens_per_s = sum(row["tokens"] for row in found) / sum(row["decode_s"] for row in found)
        tokens_per_step = 1 + sum(row["accepted"] for row in found) / sum(row["sequence_steps"] for row in found)
        off = measured["off"]
        yield {"cell": cell.name, "policy": policy, "predicted": predicted(policy, "tokens_per_s"), "measured": tokens_per_s,
               "tokens_ratio": predicted(policy, "tokens_per_round") / tokens_per_step,
               "predicted_gain": predicted(policy, "tokens_per_s") / predicted("off", "tokens_per_s"),
               "measured_gain": statistics.median(a["tokens_per_s"] / b["tokens_per_s"]
                                                  for a, b in zip(found, off, strict=True))}


def print_row(row):
    ratio = row["predicted"] / row["measured"]
    print(f"| {row['cell']} | {row['policy']} | {row['predicted']:.0f} | {row['measured']:.0f} | {ratio:.2f} | "
          f"{row['tokens_ratio']:.2f} | {row['tokens_ratio'] / ratio:.2f} | {row['predicted_gain']:.2f} | "
          f"{row['measured_gain']:.2f} | {row['predicted_gain'] / row['measured_gain']:.2f} |", flush=True)


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
    add("--rounds", type=int, default=3, metavar="N",
        help="default: %(default)s")
    add("--results", type=pathlib.Path, default=None, metavar="FILE.jsonl", help="the figures are added to it")
    parser.set_defaults(slice_ms=20)  # the two engines of a policy meet the same machine
    options = parser.parse_args()
    options.policies = options.policies.split(",")
    by_task = load_prompts(options.spec_bench)
    print("| cell | policy | tokens/s predicted | measured | ratio | of tokens a step | of seconds a step | over regular, "
          "predicted | measured | ratio |")
    print("|---|---|---|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        costs_folder = own_cache(folder)
        for batch in map(int, options.batch.split(",")):
            for row in compare(options, Cell(options.task, batch, options.temperature), by_task, folder, costs_folder):
                print_row(row)
                if options.results is not None:
                    with options.results.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
