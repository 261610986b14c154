"""bench/draft_latency.py: drafts of random weights by depth and width."""
import json
import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "bench" / "draft_latency.py"
SMALL = ["--vocabulary", "300", "--passes", "8", "--rounds", "2", "--batch", "1,3"]


@pytest.fixture
def measure(binary):
    def call(*arguments):
        return subprocess.run([sys.executable, SCRIPT, "--bass", binary, *SMALL, *arguments], capture_output=True, text=True,
                              check=False)

    return call


def test_every_shape_and_batch(measure):
    done = measure("--depths", "1,3", "--widths", "64,128", "--json")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["depth"], row["width"], row["batch"]) for row in rows] == [
        (depth, width, batch) for depth in (1, 3) for width in (64, 128) for batch in (1, 3)]
    for row in rows:
        assert row["parameters"] == row["depth"] * 16 * row["width"] ** 2 and row["pass_s"] > 0


def test_the_table_leaves_out_what_is_too_large(measure):
    done = measure("--depths", "1,3", "--widths", "64,128", "--max-parameters", "300000")
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    assert [line.count("(") for line in lines] == [0, 2, 1] * 2 and lines[2].endswith("| - |")


def test_a_program_that_is_not_there(measure):
    done = measure("--bass", "/nowhere/bass", "--depths", "1", "--widths", "64")
    assert done.returncode == 1 and "--bass /nowhere/bass" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("wrong, told", [(["--widths", "100"], "multiple of 64"), (["--max-parameters", "1"], "leaves no shape"),
                                         (["--type", "q9"], "q9")])
def test_wrong_use(measure, wrong, told):
    done = measure("--depths", "1", *wrong)
    assert done.returncode != 0 and told in done.stderr
