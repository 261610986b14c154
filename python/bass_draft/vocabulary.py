"""Which of the main model's tokens a draft can propose."""

from collections.abc import Iterable

import numpy as np

from bass_draft.errors import UserError
from bass_draft.text_shards import Text


def check_size(n_wanted: int, end_ids: list[int]) -> None:
    if n_wanted < max(1, len(end_ids)):
        raise UserError(f"--draft-vocab {n_wanted}: must be at least {max(1, len(end_ids))}")


def choose_vocabulary(texts: Iterable[Text], n_vocab: int, n_wanted: int, end_ids: list[int]) -> np.ndarray:
    """The most frequent tokens of the answers and all end tokens: [n_wanted] ids, strictly ascending. Of equally
    frequent ones the lowest ids: byte-pair vocabularies have frequent pieces first."""
    check_size(n_wanted, end_ids)
    counts = np.zeros(n_vocab, np.int64)
    for text in texts:
        np.add.at(counts, np.asarray(text.ids, np.int64), 1)
    counts[end_ids] = np.iinfo(np.int64).max
    order = np.argsort(-counts, kind="stable")
    return np.sort(order[:min(n_wanted, n_vocab)]).astype(np.int32)


def coverage(texts: Iterable[Text], vocabulary: np.ndarray) -> float:
    """Which part of the answers' tokens the vocabulary has."""
    n_known = n_all = 0
    for text in texts:
        n_known += int(np.isin(text.ids, vocabulary).sum())
        n_all += len(text.ids)
    return n_known / max(n_all, 1)
