"""The three engines: how each is asked to decode, with which settings, and how its answer is read.

A case is decoded by one process: a whole run that does not count (it warms pages, caches and threads), then one that
does.
"""
import json
import os
import pathlib
import subprocess
import sys
from dataclasses import dataclass

from machine import OtherLoad

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LLAMA_BENCH = ROOT / "build/peers/llama.cpp/bin/llama-batched-bench"
TIMEOUT_S = 300


class EngineError(Exception):
    """A run that gave no figure. The message names the command and what it said."""


@dataclass(frozen=True)
class Case:
    """What is decoded: `batch` sequences of so many prompt and generated tokens, greedily, end tokens ignored."""

    model: str  # path of the GGUF file
    batch: int
    prompt_tokens: int
    generate_tokens: int
    threads: int


class Bass:
    key = "bass"
    title = "bass"

    def __init__(self, binary):
        self.binary = os.fspath(binary)

    def candidates(self):
        return [{}]  # its defaults are its best settings

    def command(self, case, settings):  # noqa: ARG002 (every engine is called alike)
        return [self.binary, "bench", "decode", "-m", case.model, "--drafter", "off", "--threads", str(case.threads),
                "--batch", str(case.batch), "--prompt-tokens", str(case.prompt_tokens),
                "--generate-tokens", str(case.generate_tokens), "--rounds", "1", "--json"]

    def parse(self, case, output):
        row = last_row(output, lambda row: row.get("B") == case.batch and row.get("TG") == case.generate_tokens)
        return {"decode_tokens_s": row["S_TG"], "prompt_tokens_s": row["S_PP"], "limit_fraction": row["limit_fraction"]}


class LlamaCpp:
    """llama-batched-bench. Its tokens are random and nothing is sampled, which can only help it."""

    key = "llama.cpp"
    title = "llama.cpp"

    def candidates(self):
        return [{"flash_attention": attention, "kv_cache": cache}
                for attention in ("on", "off") for cache in ("split", "unified")]

    def command(self, case, settings):
        n_context = case.batch * (case.prompt_tokens + case.generate_tokens)
        cache = "--kv-unified" if settings["kv_cache"] == "unified" else "--no-kv-unified"
        return [os.fspath(LLAMA_BENCH), "-m", case.model, "-t", str(case.threads), "-tb", str(case.threads),
                "-c", str(n_context), "-b", "2048", "-ub", "512", "-fa", settings["flash_attention"], cache,
                "-npp", str(case.prompt_tokens), "-ntg", str(case.generate_tokens),
                "-npl", f"{case.batch},{case.batch}", "--output-format", "jsonl"]

    def parse(self, case, output):
        row = last_row(output, lambda row: row.get("pl") == case.batch and row.get("tg") == case.generate_tokens)
        return {"decode_tokens_s": row["speed_tg"], "prompt_tokens_s": row["speed_pp"]}


class OpenVino:
    """openvino_decode.py: the continuous batching pipeline, int8 KV cache unless a setting says otherwise."""

    key = "openvino"
    title = "OpenVINO GenAI"

    def candidates(self):
        f32 = {"INFERENCE_PRECISION_HINT": "f32"}
        latency = {"PERFORMANCE_HINT": "LATENCY"}
        return [{**latency, **f32}, {**latency, "INFERENCE_PRECISION_HINT": "bf16"},
                {"PERFORMANCE_HINT": "THROUGHPUT", **f32},
                {**latency, **f32, "DYNAMIC_QUANTIZATION_GROUP_SIZE": "128"},
                {**latency, **f32, "KV_CACHE_PRECISION": "f16"}]

    def command(self, case, settings):
        return [sys.executable, os.fspath(HERE / "openvino_decode.py"), "--model", case.model,
                "--batch", str(case.batch), "--prompt-tokens", str(case.prompt_tokens),
                "--generate-tokens", str(case.generate_tokens), "--threads", str(case.threads),
                "--properties", json.dumps(settings)]

    def parse(self, case, output):
        row = last_row(output, lambda row: row.get("batch") == case.batch)
        if row["generated"] != [case.generate_tokens] * case.batch:
            raise EngineError(f"OpenVINO GenAI generated {row['generated']} tokens, not {case.generate_tokens} each")
        return {"decode_tokens_s": row["decode_tokens_s"], "prompt_tokens_s": row["prompt_tokens_s"]}


def last_row(output, is_wanted):
    """The last line of `output` that is a JSON object and wanted; other lines are messages."""
    rows = []
    for line in output.splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and is_wanted(row):
            rows.append(row)
    if not rows:
        raise EngineError(f"no line with the figures asked for; the last lines were: {output.strip()[-300:]!r}")
    return rows[-1]


def decode(engine, case, settings):
    """Runs one case; raises EngineError.

    Returns {"decode_tokens_s": of all sequences, "prompt_tokens_s": ..., "other_load": what others took of the
    processors' time, 0-1, ...}.
    """
    command = engine.command(case, settings)
    shown = " ".join(command)
    load = OtherLoad()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except FileNotFoundError as error:
        raise EngineError(f"{command[0]} is not there; build it first ({error})") from error
    except subprocess.TimeoutExpired as error:
        raise EngineError(f"no answer within {TIMEOUT_S} s: {shown}") from error
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip())[-600:]
        raise EngineError(f"exit status {done.returncode}: {shown}\n{said}")
    try:
        return {**engine.parse(case, done.stdout), "other_load": load.read()}
    except (EngineError, KeyError) as error:
        raise EngineError(f"{shown}: {error}") from error
