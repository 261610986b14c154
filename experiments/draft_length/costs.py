#!/usr/bin/env python3
"""Measures what steps cost on this machine, for `bass bench replay`: adds a machine to a file like machines.json.

    python3 experiments/draft_length/costs.py machines.json --name here --bass build/release/bass

`bass bench step` at draft length K and batch B gives steps of B(1 + K) rows: with a spoilt copy of the draft, of which
nothing is accepted, so that all sequences run to the end. Its regular steps, measured beside each K, take out what the
machine's speed did meanwhile. A long prompt gives the cost of a token of context.
"""

import argparse
import json
import pathlib
import shutil
import statistics
import tempfile

from engine import run_bass
from poor_draft import spoil

_LONG_PROMPT = 512


def mean_length(length, n_generated):
    """Of the drafts of a sequence of which nothing is accepted: the last ones are cut by its end. Its first step carries
    the prompt and is not counted."""
    return statistics.fmean(min(length, n_generated - n_done - 1) for n_done in range(1, n_generated))


def bench_steps(options, length, batches, n_prompt_tokens=64):
    """{(mode, batch): (step without drafting, draft pass or None)} in seconds."""
    arguments = ["bench", "step", "-m", options.model, "--batch", ",".join(map(str, batches)), "--prompt-tokens",
                 n_prompt_tokens, "--generate-tokens", options.generate_tokens, "--temperature", options.temperature, "--json"]
    if length > 0:
        arguments += ["-d", options.draft, "--drafter", "model", "--draft-length", f"fixed:{length}", "--verify", "block"]
    found = {}
    for line in run_bass(options.bass, arguments).splitlines():
        row = json.loads(line)
        draft_s = sum(part["s"] for part in row["parts"] if part["name"] == "draft")
        passes = [seconds for seconds in row["draft_pass"].values() if seconds is not None]
        pass_s = draft_s / mean_length(length, options.generate_tokens) if passes else None
        found[row["mode"], row["batch"]] = (row["step"]["s"] - draft_s, pass_s)
    return found


def context_cost(options, batch):
    """Seconds that a token of context adds to a step, of one sequence."""
    short, long = (bench_steps(options, 0, [batch], length)["regular", batch][0] for length in (64, _LONG_PROMPT))
    return max(0.0, (long - short) / (batch * (_LONG_PROMPT - 64)))


def measure(options):
    """Yields the machine after each length, so that nothing is lost when time is up."""
    context_s = context_cost(options, min(8, max(options.batch)))
    found = {}
    for length in options.lengths:
        found[length] = bench_steps(options, length, options.batch)
        yield machine_of(options, found, context_s)


def machine_of(options, found, context_s):
    """found: {length: what bench_steps returns}"""
    mean_context = 64 + options.generate_tokens / 2
    steps, passes = {}, {}
    for batch in options.batch:
        regular = [of_length["regular", batch][0] for of_length in found.values()]
        contexts_s = context_s * batch * mean_context
        steps.setdefault(batch, []).extend(seconds - contexts_s for seconds in regular)
        for length, of_length in found.items():
            slowness = of_length["regular", batch][0] / statistics.median(regular)
            step_s, pass_s = of_length["speculative", batch]
            n_rows = round(batch * (1 + mean_length(length, options.generate_tokens)), 1)
            steps.setdefault(n_rows, []).append(step_s / slowness - contexts_s)
            passes.setdefault(batch, []).append(pass_s / slowness)
    return {"about": options.about, "step_seconds": curve(steps), "draft_pass_seconds": curve(passes),
            "context_token_seconds": float(f"{context_s:.3g}")}


def curve(points):
    """The medians; where they fall, which more rows never do, their mean."""
    pools = []  # [numbers, seconds]
    for n, seconds in sorted(points.items()):
        pools.append([[n], statistics.median(seconds)])
        while len(pools) > 1 and pools[-2][1] > pools[-1][1]:
            numbers, mean = pools.pop()
            before = len(pools[-1][0])
            pools[-1][1] = (before * pools[-1][1] + len(numbers) * mean) / (before + len(numbers))
            pools[-1][0] += numbers
    return [[n, round(seconds, 7)] for numbers, seconds in pools for n in numbers]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument

    def numbers(text):
        return [int(number) for number in text.split(",")]

    add("machines", type=pathlib.Path, metavar="MACHINES.json", help="made, or changed by one machine")
    add("--name", required=True)
    add("--about", default="measured by costs.py")
    add("--bass", default="bass")
    add("-m", "--model", default="smollm2")
    add("-d", "--draft", required=True, metavar="FILE")
    add("--batch", type=numbers, default="1,2,4,8,16,32", metavar="N,...", help="default: %(default)s")
    add("--lengths", type=numbers, default="1,2,4,8", metavar="K,...", help="default: %(default)s")
    add("--generate-tokens", type=int, default=48, metavar="N")
    add("--temperature", type=float, default=0.8, help="greedy steps are cheaper (default: %(default)s)")
    options = parser.parse_args()
    file = json.loads(options.machines.read_text(encoding="utf-8")) if options.machines.exists() else {"machines": {}}
    with tempfile.TemporaryDirectory() as folder:
        spoilt = shutil.copy(options.draft, pathlib.Path(folder) / "spoilt.gguf")
        if spoil(spoilt, share=1, seed=1) == 0:
            parser.error(f"{options.draft}: no tensor of 4 bits, so it cannot be spoilt")
        options.draft = spoilt
        for machine in measure(options):
            file["machines"][options.name] = machine
            options.machines.write_text(format_machines(file), encoding="utf-8")


def format_machines(file):
    """A line a member: points stay together."""
    machines = []
    for name, machine in file["machines"].items():
        members = ",\n".join(f"   {json.dumps(key)}: {json.dumps(value)}" for key, value in machine.items())
        machines.append(f"  {json.dumps(name)}: {{\n{members}\n  }}")
    return '{"machines": {\n' + ",\n".join(machines) + "\n}}\n"


if __name__ == "__main__":
    main()
