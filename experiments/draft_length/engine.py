"""Runs `bass` on a cell's prompts."""

import json
import subprocess
import sys


def run_bass(bass, arguments, lines=()):
    """What `bass` prints. lines: objects for its standard input."""
    text = "".join(json.dumps(line) + "\n" for line in lines)
    done = subprocess.run([bass, *map(str, arguments)], input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr.strip() or f"{bass} failed ({done.returncode})")
    return done.stdout


def draft_arguments(options, cell):
    """What names the drafts of a cell. Options: draft, poor_draft (paths or None)."""
    if cell.draft == "none":
        return ["--drafter", "ngram"]
    path = options.draft if cell.draft == "shipped" else options.poor_draft
    return ["-d", path] if path else []


def generate(options, cell, prompts, policy, seed):
    """The JSON of a run. Regular decoding is one without any draft."""
    drafts = ["--drafter", "off"] if policy == "off" else [*draft_arguments(options, cell), "--draft-length", policy]
    return json.loads(run_bass(options.bass, [
        "generate", "-m", options.model, "--prompts", "-", "--json", "--quiet", "--max-batch", cell.batch, "--temperature",
        cell.temperature, "--max-tokens", options.max_tokens, "--seed", seed, "--verify", "block", *drafts], prompts))


def measure(options, cell, prompts, policy, seed):
    """The line of a run in results.jsonl, but for what was run."""
    result = generate(options, cell, prompts, policy, seed)
    counts = result["speculation"]
    n_steps = sum(counts["draft_length_histogram"].values())
    return {"tokens_per_s": result["timing"]["decode_tokens_per_s"], "decode_s": result["timing"]["decode_s"],
            "tokens": result["usage"]["completion_tokens"], "drafted": counts["drafted"], "accepted": counts["accepted"],
            "sequence_steps": n_steps}


def add_engine_options(parser):
    add = parser.add_argument
    add("--bass", default="bass", help="the program")
    add("-m", "--model", default="smollm2")
    add("-d", "--draft", default=None, metavar="FILE", help="default: the one that comes with the model")
    add("--max-tokens", type=int, default=96, metavar="N", help="generated a sequence (default: %(default)s)")
    add("--spec-bench", required=True, metavar="FILE.jsonl", help="github.com/hemingkx/Spec-Bench, question.jsonl")
