#!/usr/bin/env python3
"""The study of draft shapes: trains every draft of plan.py on the same text, measures it, and writes a line a draft to
results.jsonl. Killed at any moment it goes on where it was. The text is made first, or is that of --text, the work
folder of an earlier `bass-draft generate`, whose first shards are taken.

    python3 experiments/draft_shape/run.py -m smollm2 --bass build/release/bass --work study.work
    python3 experiments/draft_shape/plot.py study.work/results.jsonl docs/experiments/draft-shape.svg
"""

import argparse
import dataclasses
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[2] / "python")]

from bass_draft import text_shards  # noqa: E402
from bass_draft.engine import Engine, find_bass  # noqa: E402
from bass_draft.files import read_json  # noqa: E402
from bass_draft.main_model import load_main_model  # noqa: E402
from bass_draft.prompts import PromptGenerator  # noqa: E402
from bass_draft.shape import DraftShape  # noqa: E402
from plan import Variant, body_size, make_plan  # noqa: E402

_N_PROMPTS = 16
_BATCHES = (1, 8)
_PROMPT_SEED = 1_000_003  # of no training text


def call_tool(arguments, options):
    environment = {**os.environ, "PYTHONPATH": sys.path[0], "BASS_BINARY": options.bass}
    command = [sys.executable, "-m", "bass_draft", *map(str, arguments)]
    if subprocess.run(command, env=environment, check=False).returncode != 0:
        sys.exit(f"run.py: failed: bass-draft {' '.join(map(str, arguments))}")


def title(variant):
    return f"{variant.table}: {variant.name}"


def link_text(options, variant):
    """A work folder whose text is the first part of the common one; the features are made once for all."""
    work = options.work / "drafts" / "_".join(map(str, variant.training()))
    common = (options.text or options.work) / "text"
    (work / "text").mkdir(parents=True, exist_ok=True)
    n_tokens = 0
    for index in range(text_shards.n_shards(common)):
        if n_tokens >= variant.n_tokens:
            break
        n_tokens += sum(len(text.ids) for text in text_shards.read_shard(common, index))
        link(text_shards.shard_path(work / "text", index), text_shards.shard_path(common, index))
    link(work / "text" / "settings.json", common / "settings.json")
    (options.work / "features").mkdir(exist_ok=True)
    link(work / "features", options.work / "features")
    return work


def link(path, target):
    if not path.exists():
        path.symlink_to(target.resolve())


def train(options, variant):
    """The draft's file and its measurements on held-out texts."""
    work = link_text(options, variant)
    draft = work / "draft.gguf"
    common = ["-m", options.model, "--work", work]
    arguments = ["train", *common, "--shape", variant.kind, "--layers", variant.depth, "--width", variant.width, "--ffn",
                 variant.ffn, "--draft-vocab", variant.vocabulary, "--positions", variant.n_positions, "--cache-gib", 200]
    call_tool([*arguments, *([] if variant.from_main else ["--no-main-weights"])], options)
    call_tool(["export", "-o", draft, *common, "--type", "q4_0"], options)  # all drafts are rounded alike, behind it
    last = (work / "train" / "log.jsonl").read_text(encoding="utf-8").splitlines()[-1]
    log = json.loads(last)
    return draft, work, {"loss": log["loss"], "seconds": log["seconds"], **log["held_out"]["all"]}


def speeds(options, draft):
    """tokens/s with the draft over tokens/s without, by temperature and batch; medians of alternated rounds."""
    generator = PromptGenerator(_PROMPT_SEED)
    lines = [generator.prompt(number, []) for number in range(_N_PROMPTS)]
    found = {}
    for temperature in (0, 1):
        for batch in _BATCHES:
            ratios = []
            for _ in range(options.rounds):
                regular = run_engine(options, lines, temperature, batch, ["--drafter", "off"])
                drafted = run_engine(options, lines, temperature, batch, ["--drafter", "model", "-d", str(draft)])
                ratios.append(drafted / regular)
            found[f"batch {batch}, T={temperature}"] = round(statistics.median(ratios), 3)
    return found


def run_engine(options, prompts, temperature, batch, drafter):
    lines = [{"prompt": prompt.text, "chat": prompt.is_chat, "temperature": temperature, "seed": prompt.seed,
              "max_tokens": 96} for prompt in prompts[:max(4, batch)]]
    result = Engine(options.bass, options.model).generate(lines, batch, None, drafter)
    return result["timing"]["decode_tokens_per_s"]


def draft_step_ms(options, draft):
    """Of a pass of the draft model behind the first of a step, at one sequence."""
    command = [options.bass, "bench", "step", "-m", options.model, "-d", str(draft), "--drafter", "model",
               "--draft-length", "fixed:4", "--batch", "1", "--json"]
    line = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1]
    return 1e3 * json.loads(line)["draft_pass"]["later_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("-m", "--model", default="smollm2")
    add("--bass", default=None)
    add("--work", type=pathlib.Path, required=True, metavar="DIR", help="text, features, drafts, results.jsonl")
    add("--tokens", type=int, default=300_000, metavar="N", help="text of every draft (default: %(default)s)")
    add("--positions", type=int, default=300_000, metavar="N", help="trained on (default: %(default)s)")
    add("--max-tokens", type=int, default=1_000_000, metavar="N", help="of the largest text (default: %(default)s)")
    add("--text", type=pathlib.Path, default=None, metavar="DIR", help="a work folder of `bass-draft generate` with the text")
    add("--rounds", type=int, default=3, metavar="N", help="of each measured speed (default: %(default)s)")
    add("--train-only", action="store_true", help="train the drafts and measure nothing: a later run without it does that, "
        "on a quiet machine")
    add("--only", default="", metavar="REGEX", help="drafts whose \"TABLE: NAME\" it finds, as in --list")
    add("--list", action="store_true", help="print the plan and end")
    options = parser.parse_args()
    options.bass = find_bass(options.bass)
    main_model = load_main_model(Engine(options.bass, options.model))
    plan = [variant for variant in make_plan(main_model, options.tokens, options.positions, options.max_tokens)
            if re.search(options.only, title(variant))]
    if options.list:
        print("\n".join(f"{title(variant)}    {variant}" for variant in plan))
        return
    options.work.mkdir(parents=True, exist_ok=True)
    if options.text is None:
        n_tokens = max(variant.n_tokens for variant in plan)
        call_tool(["generate", "-m", options.model, "--work", options.work, "--tokens", n_tokens], options)
    elif text_shards.n_shards(options.text / "text") == 0:
        sys.exit(f"run.py: {options.text}: no text; --text names the --work of a `bass-draft generate`")
    results = options.work / "results.jsonl"
    done = {}
    for line in results.read_text(encoding="utf-8").splitlines() if results.exists() else ():
        row = json.loads(line)
        done[Variant(**row["variant"])] = row
    if options.train_only:
        trainings = {variant.training(): variant for variant in plan if variant not in done}
        for variant in trainings.values():
            print(f"== {title(variant)}", flush=True)
            train(options, variant)
        return
    for variant in plan:
        if variant not in done:
            print(f"== {title(variant)}", flush=True)
            same = (row for other, row in done.items() if other.training() == variant.training())
            done[variant] = {**(next(same, None) or measure(options, variant)), "variant": dataclasses.asdict(variant)}
            with open(results, "a", encoding="utf-8") as file:
                file.write(json.dumps(done[variant]) + "\n")


def measure(options, variant):
    draft, work, measured = train(options, variant)
    shape = DraftShape.from_json(read_json(work / "train" / "settings.json")["shape"])
    return {"body": body_size(shape), "head": variant.vocabulary * shape.width, **measured,
            "draft_step_ms": draft_step_ms(options, draft), "speed": speeds(options, draft)}


if __name__ == "__main__":
    main()
