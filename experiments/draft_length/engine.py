"""Runs `bass` on a cell's prompts."""

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "bench"))

from run_bass import run_bass

SHIPPED = ROOT / "models" / "smollm2-135m-draft.gguf"


def draft_of(options):
    """The file that the options name, or the one that comes with the model: by its path, as a program that was copied does
    not find it and goes on without. None: there is none."""
    return options.draft or (SHIPPED if options.model == "smollm2" else None)


def draft_arguments(options, cell):
    """What names the drafts of a cell. Options: draft, poor_draft (paths or None)."""
    if cell.draft == "none":
        return ["--drafter", "ngram"]
    draft = draft_of(options) if cell.draft == "shipped" else options.poor_draft
    return [] if draft is None else ["-d", draft]


def n_generated(options, cell):
    return max(options.max_tokens, cell.min_tokens)


def bench_policies(options, cell, prompts, policies, n_rounds=1, arguments=()):
    """A row of each policy in each round."""
    text = run_bass(options.bass, [
        "bench", "policies", "-m", options.model, "--prompts", "-", "--json", "--max-batch", cell.batch, "--temperature",
        cell.temperature, "--max-tokens", n_generated(options, cell), "--ignore-eos", "--verify", "block",
        "--draft-lengths", ",".join(policies), "--slice-ms", options.slice_ms, "--rounds", n_rounds,
        *draft_arguments(options, cell), *arguments], prompts)
    return [json.loads(line) for line in text.splitlines()]


def add_engine_options(parser):
    add = parser.add_argument
    add("--bass", default="bass", help="the program")
    add("-m", "--model", default="smollm2")
    add("-d", "--draft", default=None, metavar="FILE", help="default: the one that comes with smollm2")
    add("--max-tokens", type=int, default=96, metavar="N", help="generated a sequence (default: %(default)s)")
    # Shorter ones find the caches full of the others' keys and values, longer ones the host in another mood.
    add("--slice-ms", type=float, default=200, metavar="T", help="a policy's turn, in milliseconds (default: %(default)s)")
    add("--spec-bench", required=True, metavar="FILE.jsonl", help="github.com/hemingkx/Spec-Bench, question.jsonl")
