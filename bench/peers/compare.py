"""Decodes with bass, OpenVINO GenAI and llama.cpp in turn and writes OUT.json, OUT.svg, and a table (OUT.md or --page).

First every setting of each peer runs once a batch size and the fastest is chosen; then the rounds: in each, all engines
decode each batch size directly after one another, in an order that rotates.
"""
import argparse
import datetime
import json
import os
import pathlib
import sys

import engines
import machine
import page
import report
import rounds


def whole_numbers(text):
    values = sorted({int(part) if part.isdecimal() else 0 for part in text.split(",")})
    if values[0] < 1:
        raise argparse.ArgumentTypeError(f"{text}: must be whole numbers from 1, like 1,8,32")
    return values


def parse_arguments(arguments):
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    parser = argparse.ArgumentParser(prog="bench/peers/run.sh", description=__doc__)
    parser.add_argument("-o", dest="out", required=True, metavar="OUT.json",
                        help="OUT.svg, and without --page OUT.md, are written beside it")
    parser.add_argument("--batch", type=whole_numbers, default=[1, 8, 32], metavar="N,...", help="sequences [1,8,32]")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="rounds; 0 only chooses the settings [5]")
    parser.add_argument("--prompt-tokens", type=int, default=64, metavar="N")
    parser.add_argument("--generate-tokens", type=int, default=64, metavar="N", help="at least 2")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), metavar="N",
                        help="[all processors]")
    parser.add_argument("-m", dest="model", default=f"{cache}/bass/SmolLM2-135M-Instruct.Q4_1.gguf", metavar="GGUF",
                        help="[%(default)s]")
    parser.add_argument("--bass", default=os.fspath(engines.ROOT / "build/release/bass"), metavar="FILE",
                        help="[%(default)s]")
    parser.add_argument("--add", action="store_true",
                        help="add rounds or batch sizes to OUT.json, with the settings that it names")
    parser.add_argument("--page", metavar="FILE.md", help="put the table into this page, between its marks")
    options = parser.parse_args(arguments)
    if not options.out.endswith(".json"):
        parser.error(f"-o {options.out}: must end in .json")
    if options.rounds < 0 or options.prompt_tokens < 1 or options.generate_tokens < 2 or options.threads < 1:
        parser.error("--rounds must be 0 or more, --prompt-tokens and --threads 1 or more, --generate-tokens 2 or more")
    if not os.path.isfile(options.model):
        parser.error(f"-m {options.model}: there is no such file; `bass pull smollm2` fetches the default model")
    if not os.access(options.bass, os.X_OK):
        parser.error(f"--bass {options.bass}: not there; build it: cmake --preset release && "
                     "cmake --build --preset release")
    if options.add and not os.path.isfile(options.out):
        parser.error(f"--add: there is no {options.out} to add to")
    return options


def say(text):
    print(text, file=sys.stderr, flush=True)


def new_result(options, all_engines):
    return {
        "date": datetime.date.today().isoformat(),
        "machine": machine.facts(),
        "versions": machine.versions(options.bass),
        "task": {"model": os.path.basename(options.model), "threads": options.threads,
                 "prompt_tokens": options.prompt_tokens, "generate_tokens": options.generate_tokens},
        "titles": {engine.key: engine.title for engine in all_engines},
        "choices": {engine.key: [] for engine in all_engines},
        "rounds": [],
    }


def check_same(old, new):
    """Rounds of another machine, version or task are not comparable."""
    for key in ("machine", "versions", "task"):
        if old[key] != new[key]:
            raise engines.EngineError(f"--add: the file's {key} is another: {old[key]} there, {new[key]} now")


def choose(engine, case):
    """The fastest of an engine's settings on one case: {"batch", "settings", "tried"}."""
    tried = []
    candidates = engine.candidates()
    for settings in candidates if len(candidates) > 1 else []:
        figures = engines.decode(engine, case, settings)
        tried.append({"settings": settings, **figures})
        say(f"{engine.title}, {case.batch} sequences, {report.settings_text(settings)}: "
            f"{figures['decode_tokens_s']:.0f} tokens/s; others took {100 * figures['other_load']:.0f} %")
    best = max(tried, key=lambda one: one["decode_tokens_s"])["settings"] if tried else candidates[0]
    say(f"{engine.title}, {case.batch} sequences: chosen: {report.settings_text(best)}")
    return {"batch": case.batch, "settings": best, "tried": tried}


def measure_round(all_engines, case, choices, n_before):
    """Each engine once, in an order that rotates with the rounds."""
    first = n_before % len(all_engines)
    figures = {}
    for engine in all_engines[first:] + all_engines[:first]:
        settings = next(one["settings"] for one in choices[engine.key] if one["batch"] == case.batch)
        figures[engine.key] = engines.decode(engine, case, settings)
    say(f"round {n_before + 1}, {case.batch} sequences: " + ", ".join(
        f"{engine.title} {figures[engine.key]['decode_tokens_s']:.0f}" for engine in all_engines) +
        f" tokens/s; others took {100 * max(one['other_load'] for one in figures.values()):.0f} %")
    return {"round": n_before + 1, "batch": case.batch, "figures": figures}


def write(result, out, page_path):
    path = pathlib.Path(out)
    path.parent.mkdir(parents=True, exist_ok=True)
    peers = [key for key in result["titles"] if key != "bass"]
    result["summary"] = rounds.summary(result["rounds"], peers)
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if not result["summary"]:
        return
    text = report.markdown(result)
    if page_path:
        page.replace_section(page_path, report.BEGIN, text, report.END)
    else:
        path.with_suffix(".md").write_text(text, encoding="utf-8")
    import plot  # here, so that what is not drawn needs no matplotlib
    plot.draw(result, path.with_suffix(".svg"))


def compare(options):
    all_engines = [engines.Bass(options.bass), engines.OpenVino(), engines.LlamaCpp()]
    cases = [engines.Case(options.model, batch, options.prompt_tokens, options.generate_tokens, options.threads)
             for batch in options.batch]
    result = new_result(options, all_engines)
    if options.add:
        old = json.loads(pathlib.Path(options.out).read_text(encoding="utf-8"))
        check_same(old, result)
        result = old
    for case in cases:
        for engine in all_engines:
            choices = result["choices"][engine.key]
            if case.batch not in [one["batch"] for one in choices]:
                choices.append(choose(engine, case))
    write(result, options.out, options.page)
    for _ in range(options.rounds):
        for case in cases:
            n_before = sum(entry["batch"] == case.batch for entry in result["rounds"])
            result["rounds"].append(measure_round(all_engines, case, result["choices"], n_before))
            write(result, options.out, options.page)  # what is measured is kept if a later round fails
    if result["summary"]:
        print(report.markdown(result), end="")


def main():
    try:
        compare(parse_arguments(None))
    except (engines.EngineError, page.PageError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("interrupted; the rounds before this one are in the file")


if __name__ == "__main__":
    main()
