"""bench/prefixes.py: prompts that begin alike, read once and read anew."""
import json
import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "bench" / "prefixes.py"
SMALL = ["--turns", "3", "--prompts", "4", "--words", "20", "--answer-tokens", "40", "--rounds", "1"]


@pytest.fixture
def measure(binary, smollm2):
    def call(*arguments):
        return subprocess.run([sys.executable, SCRIPT, "--bass", binary, "-m", smollm2, *SMALL, *arguments], capture_output=True,
                              text=True, check=False)

    return call


def test_turns_and_prompts(measure):
    done = measure("--json", "--words", "60")
    assert done.returncode == 0, done.stderr
    *turns, bulk = map(json.loads, done.stdout.splitlines())
    assert [row["turn"] for row in turns] == [1, 2, 3]
    assert turns[0]["cached_tokens"] == 0 and turns[2]["cached_tokens"] > turns[1]["cached_tokens"] > 0
    for row in turns:
        assert row["cached_tokens"] < row["prompt_tokens"] and min(row["first_s"].values()) > 0
    assert bulk["prompts"] == 4 and bulk["prompt_tokens"] > 4 * 80 and bulk["total_s"]["shared"] > bulk["prefill_s"]["shared"] > 0


def test_tables(measure):
    done = measure()
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    assert len(lines) == 1 + 3 + 1 + 2 and len({line.count("|") for line in lines[:4]}) == 1


@pytest.mark.parametrize("wrong, told", [(["--bass", "/nowhere/bass"], "--bass /nowhere/bass"), (["--turns", "0"], "--turns"),
                                         (["-m", "/nowhere.gguf"], "/nowhere.gguf")])
def test_wrong_use(measure, wrong, told):
    done = measure(*wrong)
    assert done.returncode != 0 and told in done.stderr and "Traceback" not in done.stderr
