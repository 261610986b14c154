#!/usr/bin/env python3
"""What it brings that prompts which begin alike are read once (`--prefix-cache`): the time to the first token in the turns of a
conversation with `bass serve`, and the time of `bass generate` over prompts that share a beginning. With and without it in turns,
so that a disturbance of the machine meets both. Prints Markdown tables (JSON lines with --json), medians of the rounds.

    python3 bench/prefixes.py --bass build/release/bass -m smollm2
"""

import argparse
import contextlib
import http.client
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

from run_bass import run_bass

WORDS = """time year people way day man thing woman life child world school state family student group country problem hand part place
case week company system program question work government number night point home water room mother area money story fact month lot
right study book eye job word business issue side kind head house service friend father power hour game line end member law car city""".split()
QUESTIONS = ["Explain how photosynthesis works.", "What is chlorophyll?", "Why are leaves green?", "Summarise what you said.",
             "And in winter?", "Which plants stay green?", "Give an example.", "One more fact, please."]
WAYS = {"anew": ["--prefix-cache", "0"], "shared": []}


def fail(text):
    sys.exit(f"prefixes.py: {text}")


def words(n, seed):
    chooser = random.Random(seed)
    return " ".join(chooser.choice(WORDS) for _ in range(n))


@contextlib.contextmanager
def serving(options, arguments):
    """The port of a server that runs meanwhile."""
    command = [options.bass, "serve", "-m", options.model, "--port", "0", *arguments]
    last = f"{options.bass} ended"
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    except OSError as error:
        fail(f"--bass {options.bass}: {error.strerror}")
    try:
        line = process.stdout.readline()
        while line and not line.startswith("listening on "):
            last, line = line, process.stdout.readline()
        if not line:
            fail(last.strip())
        yield int(line.split(":")[2].split()[0])
    finally:
        process.kill()
        process.wait()


def ask(port, messages, n_tokens):
    """(text, usage, seconds to the first piece)"""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    body = {"messages": messages, "max_tokens": n_tokens, "temperature": 0, "stream": True, "stream_options": {"include_usage": True}}
    start, first_s, text, usage = time.monotonic(), None, "", None
    connection.request("POST", "/v1/chat/completions", json.dumps(body))
    response = connection.getresponse()
    if response.status != 200:
        fail(response.read().decode(errors="replace"))
    for line in response:
        if not line.startswith(b"data: {"):
            continue
        event = json.loads(line[len("data: "):])
        if "error" in event:
            fail(event["error"]["message"])
        usage = event.get("usage") or usage
        for choice in event["choices"]:
            text += choice["delta"].get("content") or ""
            first_s = first_s or (time.monotonic() - start if text else None)
    if usage is None:
        fail("the server did not answer to the end")
    return text, usage, first_s or time.monotonic() - start


def in_turn(number):
    """Both ways, each first every other time."""
    return list(WAYS)[::-1] if number % 2 else list(WAYS)


def converse(options):
    """[turn]: {way: what was said and measured in one conversation}, both ways turn by turn"""
    turns = []
    with contextlib.ExitStack() as servers:
        ports = {way: servers.enter_context(serving(options, arguments)) for way, arguments in WAYS.items()}
        said = {way: [] for way in WAYS}
        for turn in range(options.turns):
            turns.append({})
            for way in in_turn(turn):
                messages = said[way]
                messages.append({"role": "user", "content": QUESTIONS[turn % len(QUESTIONS)]})
                text, usage, first_s = ask(ports[way], messages, options.answer_tokens)
                messages.append({"role": "assistant", "content": text})
                turns[-1][way] = {"text": text, "prompt_tokens": usage["prompt_tokens"], "first_s": first_s,
                                  "cached_tokens": usage["prompt_tokens_details"]["cached_tokens"]}
    return turns


def generate(options, prompts, arguments):
    result = json.loads(run_bass(options.bass, ["generate", "-m", options.model, "--prompts", prompts, "--max-tokens",
                                                options.answer_tokens, "--seed", 1, "--json", *arguments]))
    return {"texts": [choice["text"] for prompt in result["prompts"] for choice in prompt["choices"]],
            "prompt_tokens": result["usage"]["prompt_tokens"], "prefill_s": result["timing"]["prefill_s"],
            "total_s": result["timing"]["total_s"]}


def bulk_rounds(options):
    """[round]: {way: a run of all prompts}"""
    with tempfile.TemporaryDirectory() as folder:
        prompts = pathlib.Path(folder) / "prompts.jsonl"
        lines = [{"prompt": f"{words(options.words, 0)}\n{words(20, 1 + i)}"} for i in range(options.prompts)]
        prompts.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        return [{way: generate(options, prompts, WAYS[way]) for way in in_turn(number)} for number in range(options.rounds)]


def median(rounds, way, name):
    return statistics.median(measured[way][name] for measured in rounds)


def same(measured, name):
    """Whether both ways have come to the same texts, which a measurement is worth nothing without."""
    if measured["anew"][name] != measured["shared"][name]:
        fail("the texts differ")


def report_conversation(options, conversations):
    if not options.json:
        print(f"| turn | prompt tokens | of these cached | first token, read anew, s | shared, s |\n{'|---' * 5}|")
    for turn in range(options.turns):
        rounds = [conversation[turn] for conversation in conversations]
        for measured in rounds:
            same(measured, "text")
        shared = rounds[0]["shared"]
        row = {"turn": turn + 1, "prompt_tokens": shared["prompt_tokens"], "cached_tokens": shared["cached_tokens"],
               "first_s": {way: median(rounds, way, "first_s") for way in WAYS}}
        if options.json:
            print(json.dumps(row))
        else:
            print(f"| {turn + 1} | {row['prompt_tokens']} | {row['cached_tokens']} | " +
                  " | ".join(f"{row['first_s'][way]:.3f}" for way in WAYS) + " |")


def report_bulk(options, rounds):
    for measured in rounds:
        same(measured, "texts")
    n_tokens = rounds[0]["anew"]["prompt_tokens"]
    if options.json:
        print(json.dumps({"prompts": options.prompts, "prompt_tokens": n_tokens,
                          **{name: {way: median(rounds, way, name) for way in WAYS} for name in ("prefill_s", "total_s")}}))
        return
    print(f"\n{options.prompts} prompts of {n_tokens} tokens in all:\n\n| | steps with prompts, s | all, s |\n|---|---|---|")
    for way, label in (("anew", "each read anew"), ("shared", "shared")):
        print(f"| {label} | {median(rounds, way, 'prefill_s'):.2f} | {median(rounds, way, 'total_s'):.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--bass", default="bass", metavar="PROGRAM", help="the program [bass]")
    add("-m", "--model", default="smollm2", metavar="MODEL", help="as of `bass generate -m` [smollm2]")
    add("--turns", type=int, default=8, metavar="N", help="of the conversation [8]")
    add("--prompts", type=int, default=32, metavar="N", help="that begin alike [32]")
    add("--words", type=int, default=1000, metavar="N", help="that they have in common [1000]")
    add("--answer-tokens", type=int, default=64, metavar="N", help="of each answer [64]")
    add("--rounds", type=int, default=3, metavar="N", help="of which medians are told [3]")
    add("--json", action="store_true", help="print JSON lines")
    options = parser.parse_args()
    for name in ("turns", "prompts", "words", "answer_tokens", "rounds"):
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')}: must be at least 1")
    report_conversation(options, [converse(options) for _ in range(options.rounds)])
    report_bulk(options, bulk_rounds(options))


if __name__ == "__main__":
    main()
