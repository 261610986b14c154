"""The loss against its definition, written with loops; what is measured against a simulation of rounds."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from bass_draft.batches import Batch  # noqa: E402
from bass_draft.loss import answer_rows, likeliest_agree, step_result  # noqa: E402
from bass_draft.measure import Meter  # noqa: E402

N_ROWS, N_TOP, N_DRAFT = 6, 5, 9


def make_batch(seed=0):
    """Of each row's likeliest tokens the last one is outside of the draft's vocabulary."""
    random = np.random.default_rng(seed)
    top = np.stack([random.permutation(N_DRAFT)[:N_TOP] for _ in range(N_ROWS)])
    probabilities = np.sort(random.dirichlet(np.ones(N_TOP + 1), N_ROWS)[:, :N_TOP])[:, ::-1].copy()
    tail = 1 - probabilities.sum(1)
    probabilities[:, -1] = 0
    positions = torch.tensor([0, 1, 2, 0, 1, 2])
    return Batch(tokens=torch.zeros(N_ROWS, dtype=torch.long),
                 positions=positions,
                 texts=torch.tensor([0, 0, 0, 1, 1, 1]),
                 taps=None,
                 is_answer=torch.tensor([False, True, True, True, True, True]),
                 top=torch.from_numpy(top),
                 top_probabilities=torch.from_numpy(probabilities).float(),
                 tail=torch.from_numpy(tail).float(),
                 best=torch.from_numpy(top[:, 0].copy()))


def test_rows_that_count():
    assert answer_rows(make_batch(), 1).tolist() == [1, 2, 3, 4, 5]
    assert answer_rows(make_batch(), 2).tolist() == [1, 2, 4, 5]
    assert answer_rows(make_batch(), 3).tolist() == [2, 5]


def test_against_loops():
    batch, rows = make_batch(), torch.tensor([1, 3, 4])
    logits = torch.randn(len(rows), N_DRAFT, generator=torch.Generator().manual_seed(1))
    q = torch.softmax(logits, -1).tolist()
    accepted, kl = [], []
    for place, row in enumerate(rows.tolist()):
        p = batch.top_probabilities[row].tolist()
        ids, tail = batch.top[row].tolist(), float(batch.tail[row])
        accepted.append(sum(min(p[k], q[place][ids[k]]) for k in range(N_TOP)))
        mass = sum(p) + tail
        shared = [k for k in range(N_TOP) if p[k] > 0]
        rest = 1 - sum(q[place][ids[k]] for k in shared)
        divergence = sum(p[k] / mass * math.log(p[k] / mass / q[place][ids[k]]) for k in shared)
        kl.append(mass * (divergence + tail / mass * math.log(tail / mass / rest)))
    result = step_result(logits, batch, rows, "kl")
    assert result.acceptance.tolist() == pytest.approx(accepted, abs=1e-6)
    assert float(result.loss) == pytest.approx(np.mean(kl), abs=1e-5)
    assert float(step_result(logits, batch, rows, "tv").loss) == pytest.approx(1 - np.mean(accepted), abs=1e-6)
    agree = [max(range(N_DRAFT), key=q[i].__getitem__) == int(batch.best[row]) for i, row in enumerate(rows.tolist())]
    assert likeliest_agree(logits, batch, rows).tolist() == agree


@pytest.mark.parametrize("kind", ["kl", "tv"])
def test_learning_reaches_the_teacher(kind):
    batch, rows = make_batch(), torch.arange(N_ROWS)
    logits = torch.zeros(N_ROWS, N_DRAFT, requires_grad=True)
    optimizer = torch.optim.Adam([logits], 0.05)
    for _ in range(600):
        optimizer.zero_grad()
        step_result(logits, batch, rows, kind).loss.backward()
        optimizer.step()
    reachable = batch.top_probabilities.sum(1)
    result = step_result(logits, batch, rows, kind)
    assert (reachable - result.acceptance).max() < (0.02 if kind == "tv" else 0.2)
    assert likeliest_agree(logits, batch, rows).all()


def test_tokens_per_round_against_a_simulation():
    random = np.random.default_rng(5)
    n_steps, n_rows = 3, 7
    accepted, is_best = random.random((n_steps, n_rows)), random.random((n_steps, n_rows)) < 0.6
    first = 2
    is_valid = np.stack([(np.arange(n_rows) >= max(first, step)) for step in range(n_steps)])
    meter = Meter(n_steps)
    meter.add(accepted, is_best, is_valid)
    lengths = {0: [], 1: []}
    for begin in range(first, n_rows):
        for kind, values in enumerate((accepted, is_best)):
            expected, chance = 1.0, 1.0
            for step in range(n_steps):
                if begin + step >= n_rows:
                    break
                chance *= values[step, begin + step]
                expected += chance
            lengths[kind].append(expected)
    result = meter.result()
    assert result.per_round_1 == pytest.approx(np.mean(lengths[0]))
    assert result.per_round_0 == pytest.approx(np.mean(lengths[1]))
    assert result.at_temperature_1 == pytest.approx([accepted[s][is_valid[s]].mean() for s in range(n_steps)])
    assert result.n_rows == n_rows - first


@pytest.mark.parametrize("n_rows", range(1, 6))
def test_texts_shorter_than_a_round_are_measured(n_rows):
    meter = Meter(4)
    meter.add(np.ones((4, n_rows)), np.ones((4, n_rows)), np.tri(n_rows, 4, dtype=bool).T)
    assert meter.result().per_round_1 <= n_rows + 1
