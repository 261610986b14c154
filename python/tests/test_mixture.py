"""bench/drafts/mixture.py: what mixing drafters could bring."""

import functools
import pathlib
import sys

import numpy as np
import pytest

pytest.importorskip("torch")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench" / "drafts"))

from mixture import Ngrams, Sums, chances_by_column, expected_rounds, tokens_of_rounds  # noqa: E402


def rounds_by_recursion(chances, begin=0):
    """All outcomes of every round, written out."""
    n_positions, length = chances.shape

    @functools.lru_cache(maxsize=None)
    def rounds(position):
        if position >= n_positions:
            return 0.0
        total, reached = 1.0, 1.0
        for j in range(length):
            total += reached * (1 - chances[position, j]) * rounds(position + j + 1)
            reached *= chances[position, j]
        return total + reached * rounds(position + length + 1)

    return rounds(begin)


def test_expected_rounds_count_every_outcome():
    chances = np.random.default_rng(1).random((23, 4))
    assert expected_rounds(chances) == pytest.approx(rounds_by_recursion(chances))


def test_rounds_of_certain_drafts():
    assert expected_rounds(np.zeros((7, 4))) == 7  # nothing is accepted: one token a round
    ends_with_the_text = np.triu(np.ones((10, 10)))[:, ::-1][:, :4]
    assert expected_rounds(ends_with_the_text) == 2  # five tokens each


def test_a_round_is_worth_one_token_and_what_is_accepted_in_a_row():
    chances = np.array([[0.5, 0.5, 1.0], [0.0, 1.0, 1.0]])
    assert tokens_of_rounds(chances) == pytest.approx([1 + 0.5 + 0.25 + 0.25, 1])


def test_ngrams_take_the_longest_match_and_its_latest_occurrence():
    text = [1, 2, 3, 9, 2, 3, 8, 7, 2, 3]
    ngrams = Ngrams()
    for end in range(len(text) - 1):
        ngrams.learn(text, end)
    assert ngrams.draft(text, 2) == (2, [8, 7])
    assert ngrams.draft([*text[:-2], 1, 2, 3], 2) == (3, [9, 2])
    assert ngrams.draft([5, 6], 2) == (0, [])


def test_ngrams_repeat_what_they_have_proposed():
    text = [4, 5, 4, 5]
    ngrams = Ngrams()
    for end in range(len(text) - 1):
        ngrams.learn(text, end)
    assert ngrams.draft(text, 5) == (2, [4, 5, 4, 5, 4])


def test_columns_of_a_text():
    tokens = [1, 2, 3, 1, 2, 3, 1, 2, 3]
    model = np.full((4, len(tokens)), 0.5)
    columns = chances_by_column(tokens, 2, model, 4)
    assert columns["model"].shape == (6, 4)
    assert columns["model"][-1].tolist() == [0.5, 0, 0, 0]  # nothing is behind the end of the text
    assert columns["ngram"][3:].tolist() == [[1, 1, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0]]
    assert columns["ngram"][0].tolist() == [0, 0, 0, 0]  # 2, 3 has no continuation yet
    assert columns["order >= 3"][2].tolist() == [0.5] * 4  # 1, 2 alone matched
    sums = Sums()
    sums.add(columns)
    for single in ("model", "ngram", "order >= 2", "order >= 5"):
        assert sums.over_rounds("best of both") >= sums.over_rounds(single)
        assert sums.over_positions("best of both") >= sums.over_positions(single)
