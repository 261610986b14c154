"""Requests to an OpenAI-compatible server at random times, answers streamed, and what their users wait for.

Requests come whether earlier ones have been answered or not (an open loop), at times of a Poisson process, so that a
server that falls behind is seen to. Two servers are asked the same at the same times: the seed decides both.
"""
import http.client
import json
import random
import re
import statistics
import threading
import time
from dataclasses import dataclass

SHORTEST, LONGEST = 16, 256  # tokens asked for, drawn evenly by their logarithm
HAS_CONTENT = re.compile(rb'"content":\s*"[^"]')
HAS_USAGE = re.compile(rb'"usage":\s*{')


@dataclass(frozen=True)
class Ask:
    at_s: float  # after the beginning
    prompt: str
    max_tokens: int


@dataclass
class Answer:
    """Seconds after the beginning. An answer without an error has a first and a last piece."""

    asked_s: float
    first_s: float | None = None
    last_s: float | None = None
    longest_gap_s: float = 0.0  # between two pieces
    n_tokens: int = 0
    error: str = ""


def read_prompts(path):
    """The first turns of a file of lines that are JSON: Spec-Bench's `turns`, or a `prompt`."""
    prompts = []
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            asked = json.loads(line)
            prompt = asked["turns"][0] if asked.get("turns") else asked.get("prompt")
            if not isinstance(prompt, str):
                raise ValueError(f"{path}:{number}: neither turns nor a prompt")
            prompts.append(prompt)
    if not prompts:
        raise ValueError(f"{path}: no prompts")
    return prompts


def draw_asks(prompts, rate, seconds, seed):
    """All prompts once in a drawn order, before one comes again."""
    draw = random.Random(seed)
    asks, waiting, at_s = [], [], draw.expovariate(rate)
    while at_s < seconds:
        if not waiting:
            waiting = draw.sample(prompts, len(prompts))
        asks.append(Ask(at_s, waiting.pop(), round(SHORTEST * (LONGEST / SHORTEST) ** draw.random())))
        at_s += draw.expovariate(rate)
    return asks


def body_of(ask, temperature):
    """End tokens are ignored, so that every server writes the same number of tokens."""
    return json.dumps({"messages": [{"role": "user", "content": ask.prompt}], "max_tokens": ask.max_tokens,
                       "temperature": temperature, "ignore_eos": True, "stream": True,
                       "stream_options": {"include_usage": True}})


def read_stream(lines, answer, seconds_now):
    """lines: of an event stream. Pieces are not looked into but for the last, which counts the tokens: what measures
    runs on the same processors."""
    last = b""
    for line in lines:
        if not line.startswith(b"data: {"):
            continue
        now = seconds_now()
        if HAS_USAGE.search(line):
            last = line
        if not HAS_CONTENT.search(line):
            continue
        if answer.first_s is None:
            answer.first_s = now
        else:
            answer.longest_gap_s = max(answer.longest_gap_s, now - answer.last_s)
        answer.last_s = now
    usage = json.loads(last[len(b"data: "):])["usage"] if last else {}
    answer.n_tokens = usage.get("completion_tokens", 0)
    if answer.first_s is None or answer.n_tokens == 0:
        answer.error = "the stream ended without an answer"


def ask_one(address, ask, temperature, answer, seconds_now, timeout_s):
    connection = http.client.HTTPConnection(*address, timeout=timeout_s)
    try:
        connection.request("POST", "/v1/chat/completions", body_of(ask, temperature),
                           {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            answer.error = f"{response.status}: {response.read(300).decode(errors='replace')}"
            return
        read_stream(response, answer, seconds_now)
    except (OSError, http.client.HTTPException, ValueError) as error:
        answer.error = f"{type(error).__name__}: {error}"
    finally:
        connection.close()


def run(address, asks, temperature, drain_s):
    """Asks all, and waits for the answers, at most drain_s seconds longer than until the last was asked."""
    begin = time.monotonic()

    def seconds_now():
        return time.monotonic() - begin

    answers, threads = [], []
    for ask in asks:
        time.sleep(max(0.0, ask.at_s - seconds_now()))
        answer = Answer(asked_s=seconds_now())
        answers.append(answer)
        threads.append(threading.Thread(target=ask_one, daemon=True,
                                        args=(address, ask, temperature, answer, seconds_now, drain_s)))
        threads[-1].start()
    end = seconds_now() + drain_s
    for thread in threads:
        thread.join(max(0.0, end - seconds_now()))
    return [answer if not thread.is_alive() else Answer(answer.asked_s, error="not answered in time")
            for answer, thread in zip(answers, threads)]


def percentile(values, share):
    """The smallest value that is not below `share` of all."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


def summarise(answers, slo_first_s, slo_token_s):
    """Of one run. Times in seconds; a token's is that of the answer behind its first piece, a token on average."""
    done = [answer for answer in answers if not answer.error]
    first = [answer.first_s - answer.asked_s for answer in done]
    token = [(answer.last_s - answer.first_s) / (answer.n_tokens - 1) for answer in done if answer.n_tokens > 1]
    whole = [answer.last_s - answer.asked_s for answer in done]
    n_good = sum(answer.first_s - answer.asked_s <= slo_first_s and
                 answer.last_s - answer.first_s <= slo_token_s * max(1, answer.n_tokens - 1) for answer in done)
    span_s = max((answer.last_s for answer in done), default=0.0) - min((a.asked_s for a in answers), default=0.0)
    return {
        "asked": len(answers), "answered": len(done),
        "errors": sorted({answer.error for answer in answers if answer.error})[:3],
        "first_s": {"p50": percentile(first, 0.5), "p90": percentile(first, 0.9), "p99": percentile(first, 0.99)},
        "token_s": {"p50": percentile(token, 0.5), "p90": percentile(token, 0.9)},
        "answer_s": {"p50": percentile(whole, 0.5), "p90": percentile(whole, 0.9)},
        "gap_s": {"p90": percentile([answer.longest_gap_s for answer in done], 0.9)},
        "tokens_s": sum(answer.n_tokens for answer in done) / span_s if span_s > 0 else 0.0,
        "good": n_good / len(answers) if answers else 0.0,
    }


def middle(summaries):
    """Medians over rounds, number by number; rounds without answers have none."""
    def median_of(path):
        values = []
        for summary in summaries:
            for key in path:
                summary = summary[key]
            values.append(summary)
        return None if any(value is None for value in values) else statistics.median(values)

    return {key: {inner: median_of((key, inner)) for inner in value} if isinstance(value, dict) else median_of((key,))
            for key, value in summaries[0].items() if key != "errors"}
