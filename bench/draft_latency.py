#!/usr/bin/env python3
"""What a pass of a draft model takes by its depth and width: the paper's reason for wide and shallow drafts. Writes llamas of
random weights (`bass synth`) and decodes with each by itself (`bass bench decode`); the shapes follow one another in rounds,
so that a disturbance of the machine meets all of them. Prints a Markdown table (JSON lines with --json).

    python3 bench/draft_latency.py --bass build/release/bass
    python3 bench/draft_latency.py --depths 2,4,8,16 --widths 256,512,1024,2048,4096 --device cuda
"""

import argparse
import dataclasses
import json
import pathlib
import statistics
import sys
import tempfile

from run_bass import run_bass

HEAD_DIM = 64


@dataclasses.dataclass(frozen=True)
class Shape:
    depth: int
    width: int

    @property
    def config(self):
        """A llama's, whose feed-forward part is four times as wide."""
        return {"hidden_size": self.width, "intermediate_size": 4 * self.width, "num_hidden_layers": self.depth,
                "num_attention_heads": self.width // HEAD_DIM, "tie_word_embeddings": True}

    @property
    def n_parameters(self):
        """Of the layers: four square matrices of attention, three of the feed-forward part."""
        return self.depth * (4 + 3 * 4) * self.width**2


def make_model(options, shape, folder):
    config = folder / f"{shape.depth}x{shape.width}.json"
    config.write_text(json.dumps({**shape.config, "vocab_size": options.vocabulary}), encoding="utf-8")
    model = config.with_suffix(".gguf")
    run_bass(options.bass, ["synth", "--config", config, "--type", options.type, "-o", model])
    return model


def measure(options, model):
    """{sequences: seconds of a pass}"""
    # Prompts are short, so that all are read in one step, which also gives each sequence its first token.
    text = run_bass(options.bass, ["bench", "decode", "-m", model, "--batch", options.batch, "--prompt-tokens", 4,
                                   "--generate-tokens", options.passes + 1, "--rounds", 1, "--device", options.device, "--json"])
    return {row["B"]: row["B"] / row["S_TG"] for row in map(json.loads, text.splitlines())}


def rows_of(options, shapes, models):
    found = {}
    for _ in range(options.rounds):
        for shape in shapes:
            for batch, seconds in measure(options, models[shape]).items():
                found.setdefault((shape, batch), []).append(seconds)
    return [{"depth": shape.depth, "width": shape.width, "parameters": shape.n_parameters, "batch": batch,
             "pass_s": statistics.median(seconds)} for (shape, batch), seconds in found.items()]


def markdown(rows, shapes):
    """A table for each number of sequences: microseconds, depths below one another."""
    widths = sorted({shape.width for shape in shapes})
    lines = []
    for batch in dict.fromkeys(row["batch"] for row in rows):
        cells = {(row["depth"], row["width"]): f"{1e6 * row['pass_s']:.0f} ({row['parameters'] / 1e6:.0f}M)"
                 for row in rows if row["batch"] == batch}
        lines += [f"Microseconds of a pass for {batch} sequence{'s' if batch > 1 else ''} (weights of the layers):", "",
                  "| layers | " + " | ".join(f"width {width}" for width in widths) + " |", "|---|" + "---|" * len(widths)]
        lines += [f"| {depth} | " + " | ".join(cells.get((depth, width), "-") for width in widths) + " |"
                  for depth in dict.fromkeys(shape.depth for shape in shapes)]
        lines.append("")
    return "\n".join(lines)


def numbers(text):
    return [int(number) for number in text.split(",")]


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--bass", default="bass", help="the program")
    add("--depths", type=numbers, default="2,4,8,16", metavar="N,...", help="layers (default: %(default)s)")
    add("--widths", type=numbers, default="256,512,1024,2048", metavar="N,...", help="multiples of 64 (default: %(default)s)")
    add("--batch", default="1,8", metavar="N,...", help="sequences (default: %(default)s)")
    add("--vocabulary", type=int, default=8192, metavar="N", help="tokens of the head (default: %(default)s)")
    add("--type", default="q8_0", help="format of the weights (default: %(default)s)")
    add("--device", default="auto", help="as bass takes it (default: %(default)s)")
    add("--passes", type=int, default=64, metavar="N", help="of a measurement (default: %(default)s)")
    add("--rounds", type=int, default=3, metavar="N", help="measurements of a shape, of which the median counts")
    add("--max-parameters", type=float, default=1e9, metavar="N", help="larger ones are left out (default: %(default)g)")
    add("--json", action="store_true", help="print an object a line")
    options = parser.parse_args()
    for width in options.widths:
        if width <= 0 or width % HEAD_DIM != 0:
            parser.error(f"--widths {width}: must be a multiple of {HEAD_DIM}")
    if min(options.rounds, options.passes) < 1:
        parser.error("--rounds, --passes: must be at least 1")
    return options


def main():
    options = read_options()
    shapes = [Shape(depth, width) for depth in options.depths for width in options.widths]
    shapes = [shape for shape in shapes if shape.n_parameters <= options.max_parameters]
    if not shapes:
        sys.exit("draft_latency.py: --max-parameters leaves no shape")
    with tempfile.TemporaryDirectory() as name:
        models = {shape: make_model(options, shape, pathlib.Path(name)) for shape in shapes}
        rows = rows_of(options, shapes, models)
    print("\n".join(map(json.dumps, rows)) if options.json else markdown(rows, shapes))


if __name__ == "__main__":
    main()
