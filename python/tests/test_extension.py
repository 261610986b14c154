"""A prompt's own tokens in the head, against a head of all tokens."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from conftest import TINY  # noqa: E402

from bass_draft import extension  # noqa: E402
from bass_draft.batches import Example, draft_indices  # noqa: E402
from bass_draft.features import TextFeatures  # noqa: E402
from bass_draft.initial import build_model  # noqa: E402
from bass_draft.main_model import MainModel  # noqa: E402
from bass_draft.measure import measure  # noqa: E402
from bass_draft.shape import make_shape  # noqa: E402

VOCABULARY = np.arange(0, 280, 7, dtype=np.int32)
N_PROMPT, N_TOKENS, N_TOP = 12, 30, 5


@pytest.fixture
def main(tiny):
    return MainModel(str(tiny))


def draft(main, vocabulary):
    return build_model(main, make_shape(main, "llama-shallow"), vocabulary, seed=3)


def example(seed):
    """Random text; the teacher knows the prompt's tokens only."""
    rng = np.random.default_rng(seed)
    tokens = rng.integers(0, 288, N_TOKENS).astype(np.int32)
    top = np.stack([rng.permutation(np.unique(tokens[:N_PROMPT]))[:N_TOP] for _ in range(N_PROMPT - 1, N_TOKENS)])
    return Example(TextFeatures(tokens, None, top, np.full(top.shape, np.log(0.19), np.float32)))


@torch.no_grad()
def test_logits_are_those_of_a_head_with_all_tokens(main):
    group = [example(seed) for seed in range(3)]
    part, whole = draft(main, VOCABULARY), draft(main, np.arange(main.n_vocab, dtype=np.int32))
    indices = draft_indices(VOCABULARY, main.n_vocab)
    found = extension.extend(group, indices, part.main_rows, part.main_head)
    h, texts = torch.randn(8, 64), torch.tensor([0, 0, 1, 2, 2, 2, 1, 0])
    logits, expected = found.logits(part, h, texts), whole.logits(h)
    assert logits.shape[1] > len(VOCABULARY) + 20
    for row, text in enumerate(texts):
        own = set(group[text].features.tokens[:N_PROMPT].tolist()) | set(VOCABULARY.tolist())
        for token in range(main.n_vocab):
            place = found.indices[token]
            if token in own:
                assert torch.isclose(logits[row, place], expected[row, token], atol=1e-5)
            else:
                assert place < 0 or logits[row, place] == -torch.inf


def test_measured_is_what_a_wider_vocabulary_gives(main):
    for seed in range(3):
        text = example(seed)
        wide = np.union1d(VOCABULARY, text.features.tokens[:N_PROMPT]).astype(np.int32)
        results = []
        for vocabulary, has_rows in ((VOCABULARY, True), (wide, False), (VOCABULARY, False)):
            model = draft(main, vocabulary)
            if not has_rows:
                model.main_rows = None
            results.append(measure(model, [("a", text)], draft_indices(vocabulary, main.n_vocab), 2)["a"])
        extended, widened, without = results
        assert extended.at_temperature_1 == pytest.approx(widened.at_temperature_1, abs=1e-6)
        assert extended.at_temperature_0 == widened.at_temperature_0
        assert without.at_temperature_1[0] < extended.at_temperature_1[0] - 0.02


def test_texts_of_a_pack_do_not_see_each_other(main):
    texts = [("a", example(1)), ("b", example(2))]
    measured = lambda which: measure(draft(main, VOCABULARY), which, draft_indices(VOCABULARY, main.n_vocab), 2)
    both = measured([("a", text) for _, text in texts])["a"].at_temperature_1[0]
    alone = [measured([text])["all"].at_temperature_1[0] for text in texts]
    assert both == pytest.approx(np.mean(alone), abs=1e-6)


def test_a_task_may_be_called_all(main):
    measured = lambda tasks: measure(draft(main, VOCABULARY), [(task, example(seed)) for seed, task in enumerate(tasks)],
                                     draft_indices(VOCABULARY, main.n_vocab), 2)
    both, named = measured(["all", "b"]), measured(["a", "b"])
    assert sorted(both) == ["all", "b"] and both["all"].n_rows == named["all"].n_rows


def test_of_many_tokens_the_last_ones_count(monkeypatch):
    monkeypatch.setattr(extension, "MAX_TOKENS", 3)
    tokens = np.array([9, 1, 2, 3, 1, 4, 9, 8, 7])
    text = lambda first: Example(TextFeatures(tokens, None, np.zeros((len(tokens) - first, 1), np.int32), None))
    indices = draft_indices(np.array([4]), 10)
    assert extension.prompt_tokens(text(6), indices).tolist() == [1, 3, 9]
    assert extension.prompt_tokens(text(0), indices).tolist() == [9]
    assert extension.prompt_tokens(text(0), draft_indices(np.arange(10), 10)).tolist() == []


@torch.no_grad()
def test_a_heads_bias_is_in_the_logits():
    """Of GPT-J and CodeGen: for the draft's vocabulary and for the prompt's own tokens."""
    main = MainModel(str(TINY.parent / "architectures" / "codegen.gguf"))
    bias = torch.from_numpy(main.tensor("output.bias"))
    assert bias.abs().max() > 0.01
    vocabulary = np.arange(0, main.n_vocab, 7, dtype=np.int32)
    model = build_model(main, make_shape(main, "llama-shallow"), vocabulary, seed=3)
    h = torch.randn(4, main.n_embedding)
    rows = torch.from_numpy(main.head("q4_0").rows(np.arange(main.n_vocab)))
    expected = model.output_norm(h) @ rows.T + bias
    assert torch.allclose(model.logits(h), expected[:, vocabulary], atol=1e-4)
    text = example(1)
    found = extension.extend([text], draft_indices(vocabulary, main.n_vocab), model.main_rows, model.main_head)
    logits = found.logits(model, h, torch.zeros(4, dtype=torch.int64))
    own = found.indices >= 0
    assert own.sum() > len(vocabulary)
    assert torch.allclose(logits[:, found.indices[own]], expected[:, torch.from_numpy(own)], atol=1e-4)
