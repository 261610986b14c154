"""The table and the plot of servers under load."""
import load
import machine

BEGIN = "<!-- serving: written by bench/serving/run.sh -->"
END = "<!-- serving: end -->"


def cells(result):
    """(rate, server, medians over its rounds), rates first."""
    for rate in sorted({run["rate"] for run in result["runs"]}):
        for key in result["titles"]:
            runs = [run for run in result["runs"] if (run["rate"], run["server"]) == (rate, key)]
            if runs:
                numbers = [{k: v for k, v in run.items() if k not in ("round", "rate", "server")} for run in runs]
                yield rate, key, load.middle(numbers)


def milliseconds(seconds, digits=0):
    return "-" if seconds is None else f"{1000 * seconds:.{digits}f}"


def facts(result):
    task = result["task"]
    rounds = max(run["round"] for run in result["runs"])
    return (f"{machine.in_words(result)}. {task['model']}, "
            f"{task['threads']} threads, {task['slots']} sequences at once, temperature {task['temperature']:g}, prompts of "
            f"{task['prompts']}, {task['tokens'][0]} to {task['tokens'][1]} tokens an answer, requests for {task['seconds']:g} s, "
            f"{rounds} rounds. " + ", ".join(f"{name} {version}" for name, version in result["versions"].items()) +
            ". Other programs, what asks among them, took at most "
            f"{100 * max(run['other_load'] for run in result['runs']):.0f} % of the processors' time in any run.")


def markdown(result):
    """result: what under_load.py writes as JSON. Medians over the rounds."""
    first, token = result["task"]["slo"]
    lines = [facts(result), "",
             "| requests/s | server | first token, ms: p50 | p90 | a token, ms: p50 | p90 | tokens/s | answered | "
             f"good: first token within {first:g} s, then {1000 * token:g} ms each |", "|" + "---|" * 9]
    for rate, key, found in cells(result):
        share = found["answered"] / found["asked"] if found["asked"] else 0
        lines.append(f"| {rate:g} | {result['titles'][key]} | " + " | ".join([
            milliseconds(found["first_s"]["p50"]), milliseconds(found["first_s"]["p90"]),
            milliseconds(found["token_s"]["p50"], 1), milliseconds(found["token_s"]["p90"], 1),
            f"{found['tokens_s']:.0f}", f"{100 * share:.0f} %", f"{100 * found['good']:.0f} %"]) + " |")
    return "\n".join(lines) + "\n"


def draw(result, path):
    """Three panels over the rate: first token, a token, good answers."""
    import matplotlib  # here, so that what is not drawn needs none

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "bass", "svg.fonttype": "none"})
    import matplotlib.pyplot as plt

    panels = [("first token, p90, s", "log", lambda found: found["first_s"]["p90"]),
              ("a token, p50, ms", "log", lambda found: found["token_s"]["p50"] and 1000 * found["token_s"]["p50"]),
              ("good answers, %", "linear", lambda found: 100 * found["good"])]
    figure, axes = plt.subplots(1, len(panels), figsize=(11, 3.4))
    for axis, (title, scale, value_of) in zip(axes, panels):
        for key, name in result["titles"].items():
            points = [(rate, value_of(found)) for rate, other, found in cells(result) if other == key]
            points = [point for point in points if point[1] is not None]
            axis.plot(*zip(*points), marker="o", label=name) if points else None
        axis.set(xlabel="requests a second", title=title, yscale=scale)
        axis.grid(alpha=0.3)
    axes[-1].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
