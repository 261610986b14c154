"""Medians of rounds, and how much faster one engine is than another."""
import random
import statistics

N_RESAMPLES = 4000
CONFIDENCE = 0.95


def summarise(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "rounds": len(values)}


def ratio(ours, theirs):
    """Ratio of the medians, with a percentile bootstrap interval over rounds.

    ours, theirs: figures of the same rounds, in the same order. Whole rounds are drawn, so that what disturbed a round
    disturbs both sides. The draws start from a fixed seed, so that the same figures give the
    same interval. One round gives none.
    """
    if len(ours) != len(theirs) or not ours:
        raise ValueError(f"{len(ours)} rounds against {len(theirs)}: both sides need the same rounds, at least one")
    result = {"ratio": statistics.median(ours) / statistics.median(theirs), "low": None, "high": None}
    if len(ours) > 1:
        draws = random.Random(0)
        rounds = range(len(ours))
        ratios = []
        for _ in range(N_RESAMPLES):
            picked = draws.choices(rounds, k=len(ours))
            ratios.append(statistics.median(ours[i] for i in picked) / statistics.median(theirs[i] for i in picked))
        ratios.sort()
        tail = round((1 - CONFIDENCE) / 2 * N_RESAMPLES)
        result["low"], result["high"] = ratios[tail], ratios[-1 - tail]
    return result


def summary(rounds, peers):
    """One row a batch size.

    rounds: [{"batch": int, "figures": {engine key: {"decode_tokens_s": float, ...}}}]; peers: keys of the engines to
    compare bass with.
    """
    rows = []
    for batch in sorted({entry["batch"] for entry in rounds}):
        figures = [entry["figures"] for entry in rounds if entry["batch"] == batch]
        row = {"batch": batch, "engines": {}, "ratios": {}}
        for key in ["bass", *peers]:
            row["engines"][key] = summarise([entry[key]["decode_tokens_s"] for entry in figures])
        ours = [entry["bass"]["decode_tokens_s"] for entry in figures]
        for key in peers:
            row["ratios"][key] = ratio(ours, [entry[key]["decode_tokens_s"] for entry in figures])
        row["other_load"] = max(one["other_load"] for entry in figures for one in entry.values())
        row["limit_fraction"] = statistics.median(entry["bass"]["limit_fraction"] for entry in figures)
        rows.append(row)
    return rows
