#!/usr/bin/env python3
"""Draws results.jsonl of run.py as an SVG and prints it as Markdown tables (docs/experiments/draft-shape.md)."""

import argparse
import json


def read_tables(path):
    tables = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            tables.setdefault(row["variant"]["table"], []).append(row)
    return tables


def print_tables(tables):
    for table, rows in tables.items():
        speeds = list(rows[0]["speed"])
        print(f"\n### {table}\n| draft | body, M | head, M | accepted 1st / 3rd, T=1 | T=0 | step, ms | {' | '.join(speeds)} |")
        print("|---" * (6 + len(speeds)) + "|")
        for row in rows:
            one, zero = row["temperature_1"], row["temperature_0"]
            step = row["draft_step_ms"]
            print(f"| {row['variant']['name']} | {row['body'] / 1e6:.1f} | {row['head'] / 1e6:.1f} | {one[0]:.3f} / "
                  f"{one[2]:.3f} | {zero[0]:.3f} / {zero[2]:.3f} | {'-' if step is None else f'{step:.2f}'} | "
                  + " | ".join(f"{row['speed'][speed]:.2f}" for speed in speeds) + " |")


def plot(tables, path):
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "bass"  # the same figures give the same file
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, len(tables), figsize=(3.4 * len(tables), 7), squeeze=False, sharey="row")
    for column, (table, rows) in enumerate(tables.items()):
        names = [row["variant"]["name"] for row in rows]
        places = range(len(rows))
        top, bottom = axes[0][column], axes[1][column]
        top.plot(places, [row["temperature_1"][0] for row in rows], "o-", label="1st token, T=1")
        top.plot(places, [row["temperature_0"][0] for row in rows], "s-", label="1st token, T=0")
        top.plot(places, [row["temperature_1"][2] for row in rows], "o--", label="3rd token, T=1")
        for speed in rows[0]["speed"]:
            bottom.plot(places, [row["speed"][speed] for row in rows], "o-", label=speed)
        bottom.axhline(1, color="gray", linewidth=0.8)
        top.set_title(table)
        top.set_xticks([])
        bottom.set_xticks(list(places), names, rotation=60, ha="right", fontsize=7)
    axes[0][0].set_ylabel("acceptance")
    axes[1][0].set_ylabel("tokens/s over regular decoding")
    axes[0][0].legend(fontsize=7)
    axes[1][0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", metavar="RESULTS.jsonl")
    parser.add_argument("svg", nargs="?", help="drawn there (needs matplotlib)")
    options = parser.parse_args()
    tables = read_tables(options.results)
    print_tables(tables)
    if options.svg:
        plot(tables, options.svg)


if __name__ == "__main__":
    main()
