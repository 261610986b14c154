"""Which tokens a draft can propose."""

import numpy as np
import pytest

from bass_draft.errors import UserError
from bass_draft.text_shards import Text
from bass_draft.vocabulary import choose_vocabulary, coverage


def texts(*answers):
    return [Text("x", [90, 91], list(ids), 1.0, "") for ids in answers]


def test_the_most_frequent_tokens_in_ascending_order():
    vocabulary = choose_vocabulary(texts([5, 5, 5, 9, 9, 2], [9, 7]), 100, 3, [])
    assert vocabulary.tolist() == [2, 5, 9]  # 2 and 7 are equally frequent
    assert vocabulary.dtype == np.int32


def test_end_tokens_are_always_there():
    assert choose_vocabulary(texts([5, 5, 9]), 100, 3, [60, 70]).tolist() == [5, 60, 70]


def test_prompts_do_not_count():
    assert 90 not in choose_vocabulary(texts([1, 2, 3]), 100, 3, [])


def test_a_small_model_gives_all_its_tokens():
    assert choose_vocabulary(texts([1]), 4, 8192, [3]).tolist() == [0, 1, 2, 3]


def test_too_small_a_vocabulary_is_refused():
    with pytest.raises(UserError, match="--draft-vocab 1: must be at least 2"):
        choose_vocabulary(texts([1]), 100, 1, [3, 4])


def test_coverage():
    assert coverage(texts([1, 2, 3, 4]), np.array([2, 4, 90], np.int32)) == 0.5
