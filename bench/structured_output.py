#!/usr/bin/env python3
"""What a JSON schema costs, and what drafts bring under one: tokens a second of decoding, with the schema and without, with drafts
and without, in turns. Prints a Markdown table (JSON lines with --json), medians of the rounds.

    python3 bench/structured_output.py --bass build/release/bass -m smollm2
"""

import argparse
import json
import statistics
import sys

from run_bass import run_bass

PEOPLE = {"type": "array", "minItems": 12, "maxItems": 12, "items": {
    "type": "object", "required": ["name", "age", "city", "email"],
    "properties": {"name": {"type": "string", "maxLength": 16}, "age": {"type": "integer", "minimum": 1, "maximum": 99},
                   "city": {"enum": ["Rome", "Oslo", "Lima"]}, "email": {"type": "string", "maxLength": 24}}}}
PROMPT = ["--chat", "-p", "List twelve people as JSON.", "--seed", "1"]
WAYS = {  # about as many tokens without the schema as with it
    "free": ["--max-tokens", "580", "--ignore-eos", "--drafter", "off"],
    "schema": ["--max-tokens", "900", "--json-schema", json.dumps(PEOPLE), "--drafter", "off"],
    "schema, drafts": ["--max-tokens", "900", "--json-schema", json.dumps(PEOPLE)],
}


def tokens_per_s(options, n, way):
    result = json.loads(run_bass(options.bass, ["generate", "-m", options.model, "--json", *PROMPT, "-n", n, *WAYS[way]]))
    choices = result["prompts"][0]["choices"]
    if way != "free" and any(len(json.loads(choice["text"])) != 12 for choice in choices):
        sys.exit("structured_output.py: an answer is not twelve people")
    return sum(len(choice["token_ids"]) for choice in choices) / result["timing"]["decode_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--bass", default="bass")
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("--batch", default="1,8", help="samples at once")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not options.json:
        print("| samples |", " | ".join(WAYS), "|\n|---|" + "---|" * len(WAYS))
    for n in map(int, options.batch.split(",")):
        speeds = {way: [] for way in WAYS}
        for _ in range(options.rounds):
            for way in WAYS:
                speeds[way].append(tokens_per_s(options, n, way))
        if options.json:
            print(json.dumps({"samples": n, "tokens_per_s": speeds}))
        else:
            print(f"| {n} |", " | ".join(f"{statistics.median(speeds[way]):.0f}" for way in WAYS), "|")


if __name__ == "__main__":
    main()
