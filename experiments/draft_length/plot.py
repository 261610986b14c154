#!/usr/bin/env python3
"""Draws results.jsonl of run.py as an SVG and prints it as Markdown tables (docs/experiments/draft-length.md), and
whether each cell reaches what it must."""

import argparse
import re
import statistics
import sys

from analysis import (NEAR_BEST, NEVER_SLOWER, OVER_BASS, against_best_fixed, best_fixed, cell_summary, geometric_mean,
                      length_of, over_bass, ratios, read_results)

_SHOWN = ("goodput", "survival", "bass")


def text_of(estimate):
    median, low, high = estimate
    if median is None:
        return "-"
    return f"{median:.3f}" if low is None else f"{median:.3f} ({low:.3f}-{high:.3f})"


def below(results, limit, ratios_of):
    """How many cells have a median below the limit, of how many, and the least one."""
    medians = {cell: statistics.median(found) for cell, rounds in results.items() if (found := ratios_of(rounds))}
    if not medians:
        return "-"
    least = min(medians, key=medians.get)
    return f"{sum(median < limit for median in medians.values())} of {len(medians)} (least {medians[least]:.3f}: {least})"


def print_tables(results):
    policies = [policy for policy in _SHOWN if any(policy in speeds for rounds in results.values()
                                                   for speeds in rounds.values())]
    for policy in policies:
        print(f"\n### {policy}\n| cell | rounds | to regular decoding | best fixed length | to the best fixed | to bass | |")
        print("|---|---|---|---|---|---|---|")
        n_slower = n_far = n_judged = 0
        for cell, rounds in results.items():
            row = cell_summary(rounds, policy)
            n_judged += row["regular"][2] is not None
            n_slower += row["is_slower"]
            n_far += row["is_far_from_best"]
            words = ["slower"] * row["is_slower"] + ["far from best"] * row["is_far_from_best"]
            print(f"| {cell} | {row['rounds']} | {text_of(row['regular'])} | {row['best_fixed'] or '-'} | "
                  f"{text_of(row['to_best_fixed'])} | {text_of(row['to_bass'])} | {', '.join(words)} |")
        print(f"\nBelow {NEVER_SLOWER} of regular decoding: {n_slower} of the {n_judged} cells that have rounds enough to "
              f"say. Below {NEAR_BEST} of the best fixed length: {n_far}. By their medians alone: "
              f"{below(results, NEVER_SLOWER, lambda rounds: ratios(rounds, policy, 'off'))}, "
              f"{below(results, NEAR_BEST, lambda rounds: against_best_fixed(rounds, policy))}.")
        if policy != "bass":
            print(f"Over Algorithm 1, where the best fixed length is above 0: {text_of(over_bass(results, policy))}; "
                  f"target {OVER_BASS}. Each cell's best fixed length, known beforehand: {text_of(over_bass(results))}.")


def batch_of(cell):
    return int(re.search(r"batch (\d+)", cell)[1])


def print_by_batch(results):
    """Geometric means over the cells of their medians, to regular decoding."""
    print("| sequences | cells | best fixed length | `goodput` | its least cell | to the best fixed length | `bass` (cells) |")
    print("|---|---|---|---|---|---|---|")
    for batch in sorted(set(map(batch_of, results))):
        cells = [rounds for cell, rounds in results.items() if batch_of(cell) == batch and ratios(rounds, "goodput", "off")]
        if not cells:
            continue
        medians = [statistics.median(ratios(rounds, "goodput", "off")) for rounds in cells]
        best = [statistics.median(ratios(rounds, best_fixed(rounds), "off")) for rounds in cells]
        near = [statistics.median(found) for rounds in cells if (found := against_best_fixed(rounds, "goodput"))]
        bass = [statistics.median(found) for rounds in cells if (found := ratios(rounds, "bass", "off"))]
        print(f"| {batch} | {len(cells)} | {geometric_mean(best):.2f} | {geometric_mean(medians):.3f} | {min(medians):.3f} | "
              f"{f'{geometric_mean(near):.3f}' if near else '-'} | {f'{geometric_mean(bass):.2f} ({len(bass)})' if bass else '-'} |")


def plot(results, path):
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "bass"  # the same figures give the same file
    matplotlib.rcParams["svg.fonttype"] = "none"
    from matplotlib import pyplot

    n_columns = min(4, len(results))
    n_rows = -(-len(results) // n_columns)
    figure, axes = pyplot.subplots(n_rows, n_columns, figsize=(3.2 * n_columns, 2.4 * n_rows), squeeze=False)
    for axis, (cell, rounds) in zip(axes.flat, results.items(), strict=False):
        plot_cell(axis, cell, rounds)
    for axis in axes.flat[len(results):]:
        axis.set_visible(False)
    axes[0][0].legend(fontsize=6)
    figure.supylabel("tokens/s over regular decoding")
    figure.supxlabel("fixed draft length (dots); policies (lines)")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def plot_cell(axis, cell, rounds):
    """Fixed lengths as dots, policies as lines: a policy that is as good as the best length touches the highest dot."""
    fixed = {}
    for policy in {policy for speeds in rounds.values() for policy in speeds if length_of(policy) is not None}:
        fixed[length_of(policy)] = statistics.median(ratios(rounds, policy, "off"))
    best = best_fixed(rounds)
    axis.plot(sorted(fixed), [fixed[length] for length in sorted(fixed)], "o-", color="0.6", markersize=3)
    if best is not None:
        axis.plot([length_of(best)], [fixed[length_of(best)]], "ko", markersize=4)
    for policy, color in zip(_SHOWN, ("C0", "C2", "C3"), strict=True):
        found = ratios(rounds, policy, "off")
        if found:
            axis.axhline(statistics.median(found), color=color, linewidth=1.2, label=policy)
    axis.axhline(1, color="0.8", linewidth=0.8, zorder=0)
    axis.set_title(cell, fontsize=7)
    axis.tick_params(labelsize=6)
    axis.xaxis.get_major_locator().set_params(integer=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", metavar="RESULTS.jsonl")
    parser.add_argument("svg", nargs="?", help="drawn there (needs matplotlib)")
    parser.add_argument("--total", action="store_true", help="all steps, those with prompts' tokens too")
    options = parser.parse_args()
    with open(options.results, encoding="utf-8") as file:
        results = read_results(file, options.total)
    if not results:
        sys.exit(f"{options.results}: has no such figures" + (" of all steps; measure again" if options.total else ""))
    print_tables(results)
    print()
    print_by_batch(results)
    if options.svg:
        plot(results, options.svg)


if __name__ == "__main__":
    main()
