#!/usr/bin/env python3
"""Tokens of a round by task and temperature, in the engine: the draft alone and with n-grams beside it, at a fixed draft
length. Reads prompts as prompts.py writes them; prints a Markdown table (and JSON with -o)."""

import argparse
import json
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))

from run_bass import run_bass


def speculation(options, prompts, drafter, temperature):
    lines = [{key: value for key, value in line.items() if key != "task"} for line in prompts]
    arguments = ["generate", "-m", options.model, "--prompts", "-", "--json", "--quiet", "--seed", 1, "--verify", "block",
                 "--drafter", drafter, "--draft-length", f"fixed:{options.draft_length}", "--temperature", temperature,
                 "--max-tokens", options.max_tokens, "--max-batch", 8, *(["-d", options.draft] if options.draft else [])]
    return json.loads(run_bass(options.bass, arguments, lines))["speculation"]


def per_step(counts):
    """Tokens a step of a sequence: rounds and steps without a draft alike."""
    n_steps = sum(counts["draft_length_histogram"].values())
    return (counts["accepted"] + n_steps) / n_steps if n_steps else float("nan")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("prompts", metavar="PROMPTS.jsonl")
    add("--bass", default="bass")
    add("-m", "--model", default="smollm2")
    add("-d", "--draft", default=None, help="default: the one that belongs to the model")
    add("--draft-length", type=int, default=4)
    add("--max-tokens", type=int, default=128)
    add("-o", "--output", default=None, metavar="FILE.json")
    options = parser.parse_args()
    with open(options.prompts, encoding="utf-8") as file:
        prompts = [json.loads(line) for line in file]
    by_task = {}
    for line in prompts:
        by_task.setdefault(line["task"], []).append(line)
    columns = [(drafter, temperature) for temperature in (0, 1) for drafter in ("model", "ngram", "auto")]
    print("| task | " + " | ".join(f"{drafter}, T={temperature}" for drafter, temperature in columns) + " |")
    print("|---" * (len(columns) + 1) + "|", flush=True)
    results = {}
    total = {column: {"accepted": 0, "draft_length_histogram": {}} for column in columns}
    for task, lines in by_task.items():
        results[task] = {}
        for column in columns:
            counts = speculation(options, lines, *column)
            results[task][f"{column[0]} {column[1]}"] = counts
            total[column]["accepted"] += counts["accepted"]
            for length, n in counts["draft_length_histogram"].items():
                histogram = total[column]["draft_length_histogram"]
                histogram[length] = histogram.get(length, 0) + n
        print(f"| {task} | " + " | ".join(f"{per_step(results[task][f'{d} {t}']):.2f}" for d, t in columns) + " |",
              flush=True)
    print("| all | " + " | ".join(f"{per_step(total[column]):.2f}" for column in columns) + " |")
    if options.output:
        with open(options.output, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
