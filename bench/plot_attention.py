"""Draws what `bass bench attention --json` measured: time of each layout against the limit, as an SVG.

    bass bench attention --json > attention.jsonl
    python3 bench/plot_attention.py attention.jsonl docs/experiments/ragged-attention.svg
    python3 bench/plot_attention.py attention.jsonl --markdown     # the table of docs/experiments/ragged-attention.md
"""
import argparse
import json
import statistics

COLORS = {"pad": "#c44e52", "split": "#4c72b0", "fused": "#55a868"}
LENGTHS = ["uniform", "bimodal", "exponential"]


def read_rows(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def values(rows, key):
    """The different values of a key, in the order in which they come."""
    return list(dict.fromkeys(row[key] for row in rows))


def fractions(rows, heads, lengths, layout):
    """Batch sizes and fractions of the limit; the median where other sizes (context, queries) vary."""
    chosen = [row for row in rows if (row["n_heads"], row["lengths"], row["attention"]) == (heads, lengths, layout)]
    batches = sorted({row["batch"] for row in chosen})
    return batches, [statistics.median(row["limit_fraction"] for row in chosen if row["batch"] == batch) for batch in batches]


def plot(rows, path):
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "bass"  # the same figures give the same file
    from matplotlib import pyplot

    heads = values(rows, "n_heads")
    figure, axes = pyplot.subplots(len(LENGTHS), len(heads), figsize=(3 * len(heads), 7), sharex=True, sharey=True, squeeze=False)
    for line, lengths in enumerate(LENGTHS):
        for column, n_heads in enumerate(heads):
            axis = axes[line][column]
            for layout in values(rows, "attention"):
                batches, of_limit = fractions(rows, n_heads, lengths, layout)
                axis.plot(batches, [100 * value for value in of_limit], marker="o", markersize=3, label=layout,
                          color=COLORS.get(layout))
            axis.set_xscale("log", base=2)
            axis.set_ylim(bottom=0)
            axis.grid(alpha=0.3)
            if line == 0:
                axis.set_title(f"{n_heads} heads")
            if line == len(LENGTHS) - 1:
                axis.set_xlabel("sequences")
            if column == 0:
                axis.set_ylabel(f"{lengths}\n% of limit")
    axes[0][0].legend()
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def markdown(rows):
    """Time relative to the fastest layout of each cell, median over batch sizes, and the fraction of the limit."""
    layouts = values(rows, "attention")
    print("| heads | lengths | " + " | ".join(f"{layout}: time, of limit" for layout in layouts) + " |")
    print("|---|---|" + "---|" * len(layouts))
    for heads in values(rows, "n_heads"):
        for lengths in values(rows, "lengths"):
            cells = {}
            for row in rows:
                if (row["n_heads"], row["lengths"]) == (heads, lengths):
                    cells.setdefault((row["batch"], row["context"], row["queries"]), {})[row["attention"]] = row
            texts = []
            for layout in layouts:
                ratio = statistics.median(cell[layout]["s"] / min(row["s"] for row in cell.values()) for cell in cells.values())
                fraction = statistics.median(cell[layout]["limit_fraction"] for cell in cells.values())
                texts.append(f"{ratio:.2f} x, {100 * fraction:.0f} %")
            print(f"| {heads} | {lengths} | " + " | ".join(texts) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", help="lines of JSON")
    parser.add_argument("svg", nargs="?", help="file to write")
    parser.add_argument("--markdown", action="store_true", help="print a table")
    args = parser.parse_args()
    rows = read_rows(args.rows)
    if args.svg:
        plot(rows, args.svg)
    if args.markdown:
        markdown(rows)


if __name__ == "__main__":
    main()
