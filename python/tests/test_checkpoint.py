"""In what order the text's shards are trained on, and where a training goes on."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from bass_draft.checkpoint import Checkpoint, checkpoint_path, read_checkpoint  # noqa: E402
from bass_draft.errors import UserError  # noqa: E402


def shards(state, n_shards, n, seed=1):
    found = []
    for _ in range(n):
        state.begin_shard(n_shards, seed)
        found.append(state.shard)
        state.end_shard()
    return found


def test_every_shard_comes_once_an_epoch():
    found = shards(Checkpoint(np.arange(3)), 7, 21)
    epochs = [found[i:i + 7] for i in range(0, 21, 7)]
    assert all(sorted(epoch) == list(range(7)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) > 1
    assert found == shards(Checkpoint(np.arange(3)), 7, 21)
    assert found != shards(Checkpoint(np.arange(3)), 7, 21, seed=2)


def test_text_that_came_since_is_trained_on_before_any_of_it_comes_again():
    for n_before in range(11):
        state = Checkpoint(np.arange(3))
        before = shards(state, 10, n_before)
        assert sorted(before + shards(state, 20, 20 - n_before)) == list(range(20))


def test_the_shard_in_work_stays_the_one():
    state = Checkpoint(np.arange(3))
    state.begin_shard(10, 1)
    state.n_batches, shard = 5, state.shard
    state.begin_shard(20, 1)
    assert state.shard == shard and state.n_batches == 5


@pytest.mark.parametrize("content", [{"state": "{half"}, {"state": "[1]"}, {"state": 1}, {}, [], {"state": "{}"}])
def test_a_damaged_state_is_a_sentence(tmp_path, content):
    torch.save(content, checkpoint_path(tmp_path))
    with pytest.raises(UserError, match="checkpoint.pt: not a whole checkpoint .*; delete it"):
        read_checkpoint(tmp_path)
