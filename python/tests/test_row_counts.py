"""Rows that are added to have few sizes of products change nothing: losses, gradients, what is measured."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from bass_draft import row_counts  # noqa: E402
from bass_draft.batches import Example, draft_indices  # noqa: E402
from bass_draft.extension import make_extended_batch  # noqa: E402
from bass_draft.features import TextFeatures  # noqa: E402
from bass_draft.initial import build_model  # noqa: E402
from bass_draft.loss import answer_rows, step_result  # noqa: E402
from bass_draft.main_model import MainModel  # noqa: E402
from bass_draft.measure import measure  # noqa: E402
from bass_draft.shape import make_shape  # noqa: E402

VOCABULARY = np.arange(0, 280, 7, dtype=np.int32)
N_STEPS, N_TOP, WIDTH = 4, 5, 64
# (tokens, those before the answer): without a prompt, of one token, almost all prompt, exactly 32 rows.
GROUPS = [[(30, 11), (7, 0), (1, 0), (20, 19)], [(5, 1)], [(64, 40)], [(40, 39), (24, 0)]]
SHAPES = [{}, {"n_layers": 2}, {"kind": "llama-shallow"}, {"kind": "llama-shallow", "n_layers": 1}, {"width": 96}]


@pytest.fixture(scope="module")
def main(tiny):
    return MainModel(str(tiny))


def example(seed, n_tokens, first, n_taps):
    rng = np.random.default_rng(seed)
    tokens = rng.integers(0, 288, n_tokens).astype(np.int32)
    top = np.stack([rng.permutation(288)[:N_TOP] for _ in range(first, n_tokens)])
    taps = torch.from_numpy(rng.standard_normal((n_tokens, n_taps, WIDTH)).astype(np.float32)).bfloat16()
    return Example(TextFeatures(tokens, taps.view(torch.int16).numpy() if n_taps else None, top,
                                np.full(top.shape, np.log(0.19), np.float32)))


def results(main, shape, kind):
    """A loss and the gradients of each group, and what is measured of all of them."""
    model = build_model(main, make_shape(main, **shape), VOCABULARY, seed=3)
    for parameter in model.parameters():
        if parameter.dim() == 2:
            torch.nn.init.normal_(parameter, 0, 0.2)
    indices = draft_indices(VOCABULARY, main.n_vocab)
    groups = [[example(100 * i + j, *sizes, model.shape.n_taps) for j, sizes in enumerate(group)]
              for i, group in enumerate(GROUPS)]
    found = [torch.cat([loss[None], *gradients]) for loss, gradients in
             (trained(model, group, indices, kind) for group in groups)]
    measured = measure(model, [("a", text) for group in groups for text in group], indices, N_STEPS)["all"]
    return found, measured


def trained(model, group, indices, kind):
    extended = make_extended_batch(model, group, indices, "cpu")
    batch = extended.batch
    states = model.unroll(batch.tokens, batch.positions, batch.texts, batch.taps, N_STEPS if model.shape.n_taps else 1,
                          batch.is_answer)
    loss = torch.zeros(())
    for step, h in enumerate(states, 1):
        if len(rows := answer_rows(batch, step)) > 0:
            loss = loss + step_result(extended.logits(model, h, rows), batch, rows, kind).loss
    model.zero_grad()
    loss.backward()
    return loss.detach(), [parameter.grad.flatten() for parameter in model.parameters() if parameter.grad is not None]


@pytest.mark.parametrize("kind", ["kl", "tv"])
@pytest.mark.parametrize("shape", SHAPES)
def test_added_rows_change_nothing(main, shape, kind, monkeypatch):
    monkeypatch.setattr(row_counts, "_STEP", 1)
    expected, expected_measured = results(main, shape, kind)
    for row_step in (7, 32):
        monkeypatch.setattr(row_counts, "_STEP", row_step)
        found, measured = results(main, shape, kind)
        for one, other in zip(found, expected):
            assert torch.allclose(one, other, atol=1e-5 * float(other.abs().max()), rtol=1e-4)
        assert measured.n_rows == expected_measured.n_rows
        assert measured.at_temperature_1 == pytest.approx(expected_measured.at_temperature_1, abs=1e-6)


def test_products_have_few_sizes():
    sizes = {len(row_counts.pad_rows(torch.zeros(n, 2))) for n in range(1, 257)}
    assert sizes == set(range(32, 257, 32))
    is_needed = torch.arange(100) % 3 == 0  # 34 of 100
    chosen = row_counts.chosen_rows(is_needed)
    assert len(chosen) == len(set(chosen.tolist())) == 64
    assert set(is_needed.nonzero().flatten().tolist()) <= set(chosen.tolist())
    assert row_counts.chosen_rows(torch.ones(34, dtype=torch.bool)).tolist() == list(range(34))
