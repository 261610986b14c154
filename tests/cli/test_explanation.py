"""`bass generate --explain-speculation`: where the time went, and whether drafts paid."""
import time

import pytest

from conftest import DATA
from test_generate import check_json

OTHER = DATA / "tiny" / "tiny_mha_untied_f32.gguf"  # other random weights: as a draft it is of no use
CALM_S = 60  # so long other programs may disturb a run, of which nothing is claimed then
TEXT = "one two three one two three one two three one two"


@pytest.fixture
def explain(run, tiny):
    """The object of --json, and the text."""

    def call(*options):
        done = run("generate", "-m", tiny, "-p", TEXT, "-n", "2", "--max-tokens", "40", "--ignore-eos", "--json",
                   "--explain-speculation", *options)
        result = check_json(done)
        return result, done.err

    return call


def undisturbed(attempt, is_calm):
    """The first of attempt() that is_calm, or the last."""
    end = time.monotonic() + CALM_S
    while not is_calm(result := attempt()) and time.monotonic() < end:
        time.sleep(0.2)
    return result


def parts_of_the_time(explanation):
    return sum(explanation["time"].values())


@pytest.mark.parametrize("options", [
    ["--draft-length", "fixed:4"], ["--draft-length", "bass"], ["--draft-length", "survival"], ["--draft-length", "goodput"],
    ["--draft-length", "off"], ["--drafter", "ngram", "--draft-length", "fixed:3", "--temperature", "0"],
])
def test_everything_adds_up(explain, tiny, options):
    result, text = explain("-d", tiny, *options)
    timing, speculation = result["timing"], result["speculation"]
    explanation = speculation["explanation"]
    assert parts_of_the_time(explanation) == pytest.approx(timing["decode_s"], rel=1e-6)
    steps = explanation["steps"].values()
    assert sum(kind["draft_model_s"] + kind["step_s"] + kind["other_s"] for kind in steps) == pytest.approx(
        timing["decode_s"], rel=1e-6)
    regular_s = sum(kind["regular_decoding_s"] for kind in steps)
    assert explanation["regular_decoding"]["estimated_s"] == pytest.approx(regular_s)
    assert explanation["regular_decoding"]["speedup"] == pytest.approx(regular_s / timing["decode_s"])
    sources = explanation["sources"]
    assert sum(source["rounds"] for source in sources) == speculation["rounds"]
    assert sum(source["drafted"] for source in sources) == speculation["drafted"]
    assert sum(source["accepted"] for source in sources) >= speculation["accepted"]
    assert sum(size["steps"] for size in explanation["prediction"]["by_rows"]) <= sum(kind["steps"] for kind in steps)
    for size in explanation["prediction"]["by_rows"]:
        first, last = size["rows"]
        assert first <= size["mean_rows"] <= (last or size["mean_rows"])
    assert explanation["conclusion"] in text and "decode time" in text
    for source in sources:
        assert (source["expected"] is None) == (options[-1] in ("fixed:4", "bass") or "fixed:3" in options)


def test_it_is_there_only_when_it_is_asked_for(run, tiny):
    done = run("generate", "-m", tiny, "-p", TEXT, "--max-tokens", "4", "--json")
    assert "explanation" not in check_json(done)["speculation"]
    assert "decode time" not in done.err


def test_ngram_drafts(explain):
    result, text = explain("--drafter", "ngram", "--draft-length", "fixed:3", "--temperature", "0")
    explanation = result["speculation"]["explanation"]
    assert {source["source"] for source in explanation["sources"]} <= {f"n-gram of {n}" for n in ("2", "3", "4", "5+")}
    assert explanation["steps"]["ngram"]["steps"] > 0 and explanation["steps"]["model"]["steps"] == 0
    assert explanation["time"]["draft_model_s"] == 0 and explanation["prediction"]["draft_pass_ms"] is None
    assert "draft model     none" in text and "n-gram of" in text


def test_a_draft_that_never_pays_is_called_so(explain):
    # Eight passes of a draft as large as the main model: regular decoding is several times as fast.
    result, text = undisturbed(
        lambda: explain("-d", OTHER, "--drafter", "model", "--draft-length", "fixed:8", "--temperature", "0",
                        "--max-tokens", "150", "--threads", "1"),
        lambda told: told[0]["speculation"]["explanation"]["prediction"]["mean_step_error"] <= 0.5)
    explanation = result["speculation"]["explanation"]
    assert explanation["regular_decoding"]["speedup"] < 0.98
    assert "Speculation did not pay: " in text and "--draft-length goodput" in text
    assert [source["source"] for source in explanation["sources"]] == ["draft model"]


def test_the_summary_says_so_too(run, tiny):
    arguments = ["generate", "-m", tiny, "-p", TEXT, "-n", "2", "--ignore-eos", "--temperature", "0", "--threads", "1",
                 "-d", OTHER, "--drafter", "model", "--draft-length", "fixed:8"]
    told = undisturbed(lambda: run(*arguments, "--max-tokens", "150").err, lambda text: "drafts          " in text)
    assert "drafts          Speculation did not pay: " in told
    for others in (["--max-tokens", "8"], ["--max-tokens", "150", "--draft-length", "off"]):  # a few steps tell nothing
        done = run(*arguments, *others)
        assert done.code == 0 and "draft lengths" in done.err and "drafts          " not in done.err


@pytest.mark.parametrize("options", [["--drafter", "off"], ["--draft-length", "off"]])
def test_off_is_regular_decoding(explain, options):
    result, text = explain(*options)
    explanation = result["speculation"]["explanation"]
    assert explanation["conclusion"] == "Nothing was drafted: speculation was off."
    assert explanation["regular_decoding"]["estimated_s"] == pytest.approx(result["timing"]["decode_s"], rel=1e-6)
    assert explanation["time"]["drafted_steps_s"] == 0 and explanation["sources"] == []
    assert "rounds" not in text


def test_one_token_is_nothing_to_explain(explain):
    result, text = explain("--max-tokens", "1")
    assert result["speculation"]["explanation"]["regular_decoding"]["speedup"] is None
    assert "Nothing was drafted" in text
