"""A tiny main model through the whole of `make`, and what the engine makes of the draft."""

import json

import gguf
import pytest

pytest.importorskip("torch")

# Of a draft that was not trained .06 to .09 is accepted, of a trained one .14 to .23, here and in the engine. The main
# model has random weights: there is little to be learned from so little text.
THRESHOLD = 0.11
OPTIONS = ["--no-chat", "--shard-prompts", 96, "--max-tokens", 32, "--draft-vocab", 200, "--batch-rows", 128,
           "--learning-rate", 3e-3, "--seed", 3, "--device", "cpu"]


def make(run, bass, tiny, out, *arguments):
    done = run(bass, "make", "-m", tiny, "-o", out, *OPTIONS, *arguments)
    assert done.code == 0, done.err
    return done


def acceptance(path):
    field = gguf.GGUFReader(path).get_field("bass-draft.training.acceptance")
    return json.loads(field.contents())["all"]["temperature_1"]


def test_a_trained_draft_is_accepted_and_an_untrained_one_is_not(bass, run, tiny, tmp_path):
    draft = tmp_path / "draft.gguf"
    make(run, bass, tiny, draft, "--tokens", 6000, "--positions", 20000)
    trained = acceptance(draft)
    assert len(trained) == 4 and min(trained) > THRESHOLD
    untrained = tmp_path / "untrained.gguf"
    make(run, bass, tiny, untrained, "--tokens", 6000, "--positions", 1, "--work", tmp_path / "other.work")
    assert max(acceptance(untrained)) < THRESHOLD
    check_eval(run, bass, tiny, draft, tmp_path)
    check_engine(bass, tiny, draft, tmp_path)


def check_eval(run, bass, tiny, draft, tmp_path):
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"prompt": f"What is {i}?", "task": task, "chat": False}) + "\n"
                               for i in range(6) for task in ("one", "two")))
    done = run(bass, "eval", "-m", tiny, "-d", draft, "--prompts", prompts, "--max-tokens", 24, "--steps", 3)
    assert done.code == 0, done.err
    report = done.json()
    for kind in ("temperature_1", "temperature_0"):
        assert set(report[kind]) == {"all", "one", "two"}
        assert len(report[kind]["all"]["acceptance"]) == 3 and report[kind]["all"]["rows"] > 200
    assert report["temperature_1"]["all"]["acceptance"][0] > THRESHOLD


def check_engine(bass, tiny, draft, tmp_path):
    """The engine loads the file, and its acceptance at temperature 1 is what was measured here."""
    from bass_draft.engine import Engine

    lines = [{"prompt": f"Tell {i} of them", "temperature": 1.0, "seed": i, "max_tokens": 40} for i in range(24)]
    engine = Engine(str(bass), str(tiny))
    result = engine.generate(lines, 8, str(draft),
                             ["--drafter", "model", "--draft-length", "fixed:1", "--verify", "rejection"])
    speculation = result["speculation"]
    assert speculation["drafted"] > 300
    assert speculation["acceptance_rate"] > THRESHOLD
    plain = engine.generate(lines, 8)["prompts"]
    matched = engine.generate(lines, 8, str(draft),
                              ["--drafter", "model", "--draft-length", "fixed:4", "--verify", "match"])
    ids = lambda prompts: [prompt["choices"][0]["token_ids"] for prompt in prompts]
    assert ids(plain) == ids(matched["prompts"])


def test_make_goes_on_where_it_was(bass, run, tiny, tmp_path):
    draft = tmp_path / "draft.gguf"
    make(run, bass, tiny, draft, "--tokens", 600, "--positions", 300, "--shape", "llama-shallow", "--layers", 1)
    before = draft.read_bytes()
    make(run, bass, tiny, draft, "--tokens", 600, "--positions", 300, "--shape", "llama-shallow", "--layers", 1)
    assert draft.read_bytes() == before
    warm = tmp_path / "warm.gguf"
    make(run, bass, tiny, warm, "--tokens", 600, "--positions", 300, "--init", draft, "--type", "q4_0")
    assert gguf.GGUFReader(warm).get_field("bass-draft.block_count").contents() == 1


def test_errors(bass, run, tiny, tmp_path):
    done = run(bass, "export", "-m", tiny, "-o", tmp_path / "d.gguf", "--work", tmp_path / "w")
    assert done.code == 2 and "there is no checkpoint yet" in done.err
    done = run(bass, "eval", "-m", tiny, "-d", tiny, "--prompts", tmp_path / "none")
    assert done.code == 2 and "is no draft of this tool" in done.err
    done = run(bass, "make", "-m", tiny, "-o", tmp_path / "d.gguf", "--device", "cuda", "--tokens", 50, *OPTIONS[:5])
    assert done.code == 0 or (done.code == 2 and "finds no CUDA device here; use --device cpu" in done.err), done.err
