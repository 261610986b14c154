#!/usr/bin/env python3
"""What `block` accepts more than `rejection` on the same records: drafted tokens that each accepts in expectation, a round
(docs/experiments/draft-length.md). Of the draft that comes with the model and, where it is given, of the spoilt one.

What `block` does with a token depends on those behind it. Given the drafts as they were drawn its mean has their luck
in it (`drawn`); over all tokens that could have been drawn behind each one it has not, and is at least that of
`rejection` in every round (`block`).

    python3 bench/drafts/prompts.py --spec-bench question.jsonl --limit 12 > prompts.jsonl
    python3 experiments/draft_length/rules.py prompts.jsonl --bass build/release/bass --poor-draft poor.gguf

It ends with an error if `block` accepts less anywhere.
"""

import argparse
import json
import pathlib
import sys
import tempfile

from engine import run_bass
from replays import add_trace_options, write_trace

TEMPERATURE = 0.8
LENGTHS = (2, 4, 8)  # of the table
ROUNDING = 1e-9  # of sums over a record's rounds


def accepted(options, draft, path):
    """A row for each task, drafter and draft length. path: of the draft model; None: that of the options"""
    with tempfile.TemporaryDirectory() as directory:
        trace = write_trace(options, TEMPERATURE, directory, path)
        text = run_bass(options.bass, ["bench", "replay", "--trace", trace, "--acceptance", "--by-task", "--json"])
    return [{"draft": draft, **json.loads(line)} for line in text.splitlines()]


def table(rows):
    """Of the model's drafts; n-grams are certain, and certain drafts are accepted alike."""
    lines = ["| draft | task | draft length | `rejection` | `block` | gain | drawn |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        if row["drafter"] == "model" and row["length"] in LENGTHS:
            gain = row["block_given_prefix"] / row["rejection"] - 1
            lines.append(f"| {row['draft']} | {row['task']} | {row['length']} | {row['rejection']:.3f} | "
                         f"{row['block_given_prefix']:.3f} | {100 * gain:.1f} % | {row['block']:.3f} |")
    return "\n".join(lines)


def worse_cells(rows):
    """Where `block` accepts less."""
    return [row for row in rows if row["block_given_prefix"] < row["rejection"] * (1 - ROUNDING)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_trace_options(parser)
    parser.add_argument("--poor-draft", default=None, metavar="FILE", help="of poor_draft.py")
    parser.add_argument("--results", type=pathlib.Path, default=None, metavar="FILE.jsonl", help="the figures go there, too")
    options = parser.parse_args()
    rows = accepted(options, "shipped", None)
    if options.poor_draft is not None:
        rows += accepted(options, "poor", options.poor_draft)
    if options.results is not None:
        options.results.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    print(table(rows))
    worse = worse_cells(rows)
    print(f"\n`block` accepts less than `rejection` in {len(worse)} of {len(rows)} cells (all drafters and lengths)")
    if worse:
        sys.exit(1)


if __name__ == "__main__":
    main()
