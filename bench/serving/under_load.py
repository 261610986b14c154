"""Servers under load: what their users wait for, by requests a second.

Each server is started for each rate, warmed up with a few requests, and asked for --seconds, all of them the same at
the same times; servers take turns, in an order that rotates with the rounds. A server that answers a rate's requests
later than --give-up is not asked for higher ones. Writes OUT.json after each run, and in the end a table (OUT.md or
--page) and a plot (OUT.svg).
"""
import argparse
import datetime
import json
import os
import pathlib
import sys

import load
import servers

sys.path.insert(0, os.fspath(servers.ROOT / "bench" / "peers"))
import load_report  # noqa: E402
import machine  # noqa: E402
import page  # noqa: E402

WARM_UP = 3  # requests, one after the other
SEED = 1


def rates_of(text):
    try:
        rates = sorted({float(part) for part in text.split(",")})
    except ValueError:
        rates = [0.0]
    if not all(0 < rate < 1e4 for rate in rates):
        raise argparse.ArgumentTypeError(f"{text}: must be requests a second, like 0.5,1,2")
    return rates


def parse_arguments(arguments):
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    parser = argparse.ArgumentParser(prog="bench/serving/run.sh", description=__doc__)
    parser.add_argument("prompts", metavar="PROMPTS.jsonl", help="lines with a `prompt`, or with `turns` as Spec-Bench's")
    parser.add_argument("-o", dest="out", required=True, metavar="OUT.json")
    parser.add_argument("--rates", type=rates_of, default=[0.5, 1, 2, 4, 6], metavar="R,...",
                        help="requests a second, on average [0.5,1,2,4,6]")
    parser.add_argument("--seconds", type=float, default=40, metavar="S", help="how long requests come [40]")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="[3]")
    parser.add_argument("--slots", type=int, default=32, metavar="N", help="sequences at once [32]")
    parser.add_argument("--give-up", type=float, default=10, metavar="S", help="median wait for the first token [10]")
    parser.add_argument("--slo", default="1,0.05", metavar="FIRST,TOKEN",
                        help="seconds within which a good answer begins, and a token comes on average [%(default)s]")
    parser.add_argument("--temperature", type=float, default=0.8, metavar="T", help="[0.8]")
    parser.add_argument("--servers", default="bass,bass-off,llama-server", metavar="NAME,...", help="[%(default)s]")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), metavar="N", help="[all processors]")
    parser.add_argument("-m", dest="model", default=f"{cache}/bass/SmolLM2-135M-Instruct.Q4_1.gguf", metavar="GGUF",
                        help="[%(default)s]")
    parser.add_argument("-d", dest="draft", default=os.fspath(servers.ROOT / "models/smollm2-135m-draft.gguf"),
                        metavar="GGUF", help="bass's draft model [%(default)s]")
    parser.add_argument("--bass", default=os.fspath(servers.ROOT / "build/release/bass"), metavar="FILE",
                        help="[%(default)s]")
    parser.add_argument("--page", metavar="FILE.md", help="put the table into this page, between its marks")
    options = parser.parse_args(arguments)
    try:
        options.slo = [float(part) for part in options.slo.split(",")]
    except ValueError:
        options.slo = []
    if len(options.slo) != 2 or min(options.slo) <= 0:
        parser.error("--slo takes two numbers of seconds, like 1,0.05")
    if not options.out.endswith(".json"):
        parser.error(f"-o {options.out}: must end in .json")
    if options.seconds <= 0 or options.rounds < 1 or options.slots < 1 or options.threads < 1:
        parser.error("--seconds must be above 0, --rounds, --slots and --threads 1 or more")
    for file in (options.model, options.prompts, options.bass):
        if not os.path.isfile(file):
            parser.error(f"{file}: there is no such file")
    known = all_servers(options)
    unknown = [name for name in options.servers.split(",") if name not in known]
    if unknown:
        parser.error(f"--servers {unknown[0]}: must be among {', '.join(known)}")
    options.servers = [known[name] for name in options.servers.split(",")]
    return options


def all_servers(options):
    found = [servers.Bass(options.bass, "bass", "bass", ["-d", options.draft]),
             servers.Bass(options.bass, "bass-off", "bass --drafter off", ["--drafter", "off"]),
             servers.LlamaServer(context=4096)]
    return {server.key: server for server in found}


def say(text):
    print(text, file=sys.stderr, flush=True)


def measure(server, options, asks, prompts, log_path):
    """One run of one server: load.summarise's numbers, and what others took of the processors' time."""
    with servers.running(server, options.model, options.threads, options.slots, log_path) as address:
        for i in range(WARM_UP):
            for answer in load.run(address, [load.Ask(0, prompts[i % len(prompts)], 64)], options.temperature, 120):
                if answer.error:
                    raise servers.ServerError(f"{server.title}: {answer.error}")
        return load.summarise(load.run(address, asks, options.temperature, drain_s=60), *options.slo)


def say_run(round_idx, rate, server, found):
    first = found["first_s"]["p50"]
    told = "no answer" if first is None else (
        f"first token {1000 * first:.0f} ms (p90 {1000 * found['first_s']['p90']:.0f}), a token "
        f"{1000 * found['token_s']['p50']:.1f} ms, {found['tokens_s']:.0f} tokens/s, {100 * found['good']:.0f} % good")
    say(f"round {round_idx + 1}, {rate:g} requests/s, {server.title}: {found['answered']} of {found['asked']} answered, "
        f"{told}{''.join('; ' + error for error in found['errors'])}")


def compare(options):
    prompts = load.read_prompts(options.prompts)
    out = pathlib.Path(options.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    result = {"date": datetime.date.today().isoformat(), "machine": machine.facts(),
              "versions": {"bass": machine.bass_version(options.bass)},
              "task": {"model": os.path.basename(options.model), "prompts": os.path.basename(options.prompts),
                       "threads": options.threads, "slots": options.slots, "seconds": options.seconds,
                       "temperature": options.temperature, "slo": options.slo,
                       "tokens": [load.SHORTEST, load.LONGEST]},
              "titles": {server.key: server.title for server in options.servers}, "runs": []}
    given_up = set()
    for round_idx in range(options.rounds):
        for rate in options.rates:
            asks = load.draw_asks(prompts, rate, options.seconds, SEED + round_idx)
            first = round_idx % len(options.servers)
            for server in options.servers[first:] + options.servers[:first]:
                if (server.key, rate) in given_up:
                    continue
                others = machine.OtherLoad()
                found = measure(server, options, asks, prompts, out.with_suffix(f".{server.key}.log"))
                found["other_load"] = others.read()
                say_run(round_idx, rate, server, found)
                result["runs"].append({"round": round_idx + 1, "rate": rate, "server": server.key, **found})
                out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
                if found["first_s"]["p50"] is None or found["first_s"]["p50"] > options.give_up:
                    given_up |= {(server.key, other) for other in options.rates if other > rate}
    for server in options.servers:
        out.with_suffix(f".{server.key}.log").unlink(missing_ok=True)
    text = load_report.markdown(result)
    if options.page:
        page.replace_section(options.page, load_report.BEGIN, text, load_report.END)
    else:
        out.with_suffix(".md").write_text(text, encoding="utf-8")
    load_report.draw(result, out.with_suffix(".svg"))
    print(text, end="")


def main():
    try:
        compare(parse_arguments(None))
    except (servers.ServerError, page.PageError, ValueError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("interrupted; the runs before this one are in the file")


if __name__ == "__main__":
    main()
