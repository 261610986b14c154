"""The table for a page of docs/performance."""
import machine

BEGIN = "<!-- peers: written by bench/peers/run.sh -->"
END = "<!-- peers: end -->"


def number(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def spread(figures):
    return f"{number(figures['median'])} ({number(figures['min'])}-{number(figures['max'])})"


def times(ratio):
    shown = f"**{ratio['ratio']:.2f}**"
    return shown if ratio["low"] is None else f"{shown} ({ratio['low']:.2f}-{ratio['high']:.2f})"


def settings_text(settings):
    return ", ".join(f"{name}={value}" for name, value in settings.items()) or "defaults"


def facts_lines(result):
    task, versions = result["task"], result["versions"]
    n_rounds = min(row["engines"]["bass"]["rounds"] for row in result["summary"])
    yield (f"{machine.in_words(result)}. {task['model']}, "
           f"{task['prompt_tokens']} prompt + {task['generate_tokens']} generated tokens a sequence, "
           f"{task['threads']} threads, {n_rounds} rounds. " +
           ", ".join(f"{name} {version}" for name, version in versions.items()) + ". Others took at most "
           f"{100 * max(row['other_load'] for row in result['summary']):.0f} % of the processors' time in any run.")


def table_lines(result):
    titles = result["titles"]
    peers = [key for key in titles if key != "bass"]
    head = ["sequences", "bass"] + [cell for key in peers for cell in (titles[key], f"bass / {titles[key]}")]
    yield "| " + " | ".join([*head, "bass, of its limit"]) + " |"
    yield "|" + "---|" * (len(head) + 1)
    for row in result["summary"]:
        cells = [str(row["batch"]), spread(row["engines"]["bass"])]
        for key in peers:
            cells += [spread(row["engines"][key]), times(row["ratios"][key])]
        yield "| " + " | ".join([*cells, f"{100 * row['limit_fraction']:.0f} %"]) + " |"


def settings_lines(result):
    """Which settings of each peer were chosen at which batch size."""
    for key, choices in result["choices"].items():
        if len(choices[0]["tried"]) < 2:
            continue
        batches = {}
        for choice in choices:
            batches.setdefault(settings_text(choice["settings"]), []).append(str(choice["batch"]))
        found = "; ".join(f"{text} (at {', '.join(at)})" for text, at in batches.items())
        yield f"- {result['titles'][key]}, best of {len(choices[0]['tried'])} settings: {found}"


def markdown(result):
    """result: what compare.py writes as JSON. Median (lowest-highest) tokens/s; ratios with their 95 % interval."""
    lines = [*facts_lines(result), "",
             "Generated tokens/s over all sequences, median (lowest-highest); ratios of medians (95 % interval).",
             "", *table_lines(result), "", *settings_lines(result)]
    return "\n".join(lines) + "\n"
