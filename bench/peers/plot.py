"""The plot for a page of docs/performance: tokens/s of each engine over the number of sequences."""
import matplotlib

matplotlib.use("svg")
matplotlib.rcParams.update({"svg.hashsalt": "bass", "svg.fonttype": "none", "font.size": 10})
import matplotlib.pyplot as plt  # noqa: E402 (the backend is chosen first)

COLOURS = {"bass": "#c2410c", "openvino": "#1d4ed8", "llama.cpp": "#4b5563"}


def draw(result, path):
    """One line an engine, with the lowest and highest round as a bar; both axes logarithmic."""
    figure, axes = plt.subplots(figsize=(6.4, 4), layout="constrained")
    batches = [row["batch"] for row in result["summary"]]
    for key, title in result["titles"].items():
        figures = [row["engines"][key] for row in result["summary"]]
        medians = [one["median"] for one in figures]
        below = [one["median"] - one["min"] for one in figures]
        above = [one["max"] - one["median"] for one in figures]
        axes.errorbar(batches, medians, yerr=[below, above], label=title, color=COLOURS.get(key), marker="o", capsize=3)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(batches, [str(batch) for batch in batches])
    axes.set_xlabel("sequences")
    axes.set_ylabel("generated tokens/s, all sequences")
    axes.set_title(f"{result['task']['model']}, {result['task']['threads']} threads\n{result['machine']['processor']}",
                   fontsize=9)
    axes.grid(True, which="both", alpha=0.25)
    axes.legend()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
