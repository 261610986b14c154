"""The plan of experiments/draft_shape: what its tables promise."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "experiments" / "draft_shape"))
from plan import body_size, make_plan  # noqa: E402

from bass_draft.shape import make_shape  # noqa: E402


class SmolLM2:
    """The sizes of SmolLM2-135M."""

    n_layers, n_embedding, n_vocab, n_ff, n_heads, n_kv_heads, head_dim = 30, 576, 49152, 1536, 9, 3, 64
    norm_epsilon, rope_base, n_context = 1e-5, 100000.0, 8192


@pytest.fixture
def plan():
    return make_plan(SmolLM2(), 300_000, 400_000, 1_000_000)


def size(variant):
    return body_size(make_shape(SmolLM2(), variant.kind, None, variant.depth, variant.width, variant.ffn))


def test_drafts_of_a_shape_table_are_of_one_size_and_see_the_same_text(plan):
    for table in ("shape", "shape with features"):
        rows = [variant for variant in plan if variant.table == table]
        assert {variant.depth for variant in rows} >= {1, 2, 4} and len({variant.width for variant in rows}) >= 3
        assert all(abs(size(variant) - 8e6) < 0.05 * 8e6 for variant in rows)
        assert {(variant.n_tokens, variant.n_positions) for variant in rows} == {(300_000, 400_000)}


def test_sizes_are_what_they_are_called(plan):
    rows = [variant for variant in plan if variant.table == "size"]
    assert len(rows) == 6
    assert all(abs(size(variant) - float(variant.name[:-1]) * 1e6) < 0.05e6 for variant in rows)


def test_texts_end_where_there_is_no_more(plan):
    assert [variant.n_tokens for variant in plan if variant.table == "text"] == [300_000, 1_000_000]


def test_the_same_draft_is_trained_once(plan):
    named = {(variant.table, variant.name): variant.training() for variant in plan}
    assert len(named) == len(plan)
    assert named["size", "8M"] == named["vocabulary", "8192"] == named["beginning", "random layers"]
