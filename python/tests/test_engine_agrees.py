"""A draft that the tool has exported says in the engine what it says in PyTorch, place by place."""

import dataclasses
import json
import subprocess

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from bass_draft.batches import draft_indices  # noqa: E402
from bass_draft.engine import Engine  # noqa: E402
from bass_draft.evaluate import EvalOptions, answer_examples, load_draft  # noqa: E402
from bass_draft.export import Origin, write_draft  # noqa: E402
from bass_draft.initial import build_model, start_from_main  # noqa: E402
from bass_draft.main_model import load_main_model  # noqa: E402
from bass_draft.measure import measured_rows  # noqa: E402
from bass_draft.shape import make_shape  # noqa: E402

N_PROMPTS, N_TOKENS, SEED = 6, 40, 11
# The engine rounds what meets a head of 4 bits to 8 bits, and keeps a draft's logits in bfloat16 (and samples from what
# it keeps): 2 ** -9 of one of 8 are 1.6 % of its probability. What a wrong rope does is in the test behind.
TOLERANCE, MEAN_TOLERANCE = 0.1, 0.015


@pytest.fixture
def prompts(tmp_path):
    path = tmp_path / "prompts.jsonl"
    path.write_text("".join(json.dumps({"prompt": f"What is {i * 7}, and why?", "chat": False}) + "\n"
                            for i in range(N_PROMPTS)))
    return path


def export(main, path, rope_base=None, **shape):
    """An untrained draft, its layers the main model's."""
    shape = make_shape(main, **shape)
    shape = dataclasses.replace(shape, rope_base=rope_base or shape.rope_base)
    vocabulary = np.arange(0, main.n_vocab, 2, dtype=np.int32)
    model = build_model(main, shape, vocabulary, seed=5)
    start_from_main(model, main)
    tensors = {name: values.numpy() for name, values in model.state_dict().items()}
    write_draft(path, tensors, shape, vocabulary, main, Origin("none", "none", {}, 0), "f32")


def engines_overlaps(bass, tiny, draft, prompts, tmp_path):
    """[sequence][place of the text]: sum min(p, q) of the token that is drafted there first."""
    lines = [{**json.loads(line), "seed": SEED + i} for i, line in enumerate(prompts.read_text().splitlines())]
    traced = tmp_path / "traced.jsonl"
    traced.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = subprocess.run(
        [bass, "bench", "trace", "-m", tiny, "-d", draft, "--prompts", traced, "--temperature", "1", "--drafter", "model",
         "--max-tokens", str(N_TOKENS), "--max-drafts", "2"], capture_output=True, text=True, check=True)
    _, *sequences = map(json.loads, done.stdout.splitlines())
    return [[one["model"]["overlap"][0] for one in sequence["rounds"] if "model" in one] for sequence in sequences]


def torchs_overlaps(bass, tiny, draft, prompts):
    engine = Engine(str(bass), str(tiny))
    main = load_main_model(engine)
    shape, model, indices = load_draft(main, draft, seed=1)
    options = EvalOptions(n_steps=1, max_tokens=N_TOKENS, seed=SEED)
    examples = answer_examples(engine, main, prompts, 1.0, shape.tap_layers, options)
    found = []
    for _, example in examples:
        accepted, _, is_valid = next(iter(measured_rows(model, [example], indices, 1, "cpu")))
        found.append(accepted[0][is_valid[0]])
    return found


def differences(engines, torchs):
    """Of each place that both have, as a part of the value."""
    assert len(engines) == len(torchs) == N_PROMPTS
    pairs = [pair for of_engine, of_torch in zip(engines, torchs) for pair in zip(of_engine, of_torch)]
    return np.array([abs(engine - other) / max(other, 1e-3) for engine, other in pairs])


@pytest.mark.parametrize("shape", [{}, {"kind": "llama-shallow"}, {"kind": "llama-shallow", "n_layers": 2},
                                   {"width": 96, "n_layers": 2}, {"head_type": "main"}])
def test_overlaps_are_equal(bass, tiny, prompts, tmp_path, shape):
    draft = tmp_path / "draft.gguf"
    export(load_main_model(Engine(str(bass), str(tiny))), draft, **shape)
    engines = engines_overlaps(bass, tiny, draft, prompts, tmp_path)
    torchs = torchs_overlaps(bass, tiny, draft, prompts)
    found = differences(engines, torchs)
    assert len(found) > N_PROMPTS * N_TOKENS / 2
    assert np.max(found) < TOLERANCE and np.mean(found) < MEAN_TOLERANCE, (np.max(found), np.mean(found))


def test_negative_control_another_rope_is_found(bass, tiny, prompts, tmp_path):
    main = load_main_model(Engine(str(bass), str(tiny)))
    export(main, tmp_path / "draft.gguf")
    export(main, tmp_path / "other.gguf", rope_base=2 * main.rope_base)
    engines = engines_overlaps(bass, tiny, tmp_path / "other.gguf", prompts, tmp_path)
    found = differences(engines, torchs_overlaps(bass, tiny, tmp_path / "draft.gguf", prompts))
    assert np.max(found) > 3 * TOLERANCE and np.mean(found) > 3 * MEAN_TOLERANCE, (np.max(found), np.mean(found))
