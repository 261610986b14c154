"""Training batches: texts packed one after the other, a row a position."""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import torch

from bass_draft.features import TextFeatures
from bass_draft.row_counts import pad_rows


@dataclasses.dataclass(frozen=True)
class Example:
    """A text with its features. Rows from `first` on predict tokens of the answer; those before are context."""

    features: TextFeatures

    @property
    def first(self) -> int:
        return self.features.first

    @property
    def n_rows(self) -> int:
        return len(self.features.tokens)


@dataclasses.dataclass
class Batch:
    """n_rows counts the texts' rows, and behind them a few that are no text's (text -1; row_counts.py says why).
    tokens, positions, texts: [n_rows]; taps: bfloat16 [n_rows, n_taps, main_width] of the position before, or None;
    is_answer: [n_rows]. Teacher, of the answers' rows (others have none): the likeliest next tokens of each row as
    indices into the draft's vocabulary (those outside of it have probability 0) and their probabilities
    [n_rows, n_top], and `tail`, the probability of all tokens that are not among the likeliest: [n_rows]."""

    tokens: torch.Tensor
    positions: torch.Tensor
    texts: torch.Tensor
    taps: torch.Tensor | None
    is_answer: torch.Tensor
    top: torch.Tensor
    top_probabilities: torch.Tensor
    tail: torch.Tensor
    best: torch.Tensor  # [n_rows] index of the likeliest token, -1 if the draft cannot propose it

    def to(self, device: str) -> "Batch":
        return Batch(**{field.name: value.to(device) if (value := getattr(self, field.name)) is not None else None
                        for field in dataclasses.fields(self)})


def pack(examples: Sequence[Example], max_rows: int) -> Iterator[list[Example]]:
    """Groups of at most `max_rows` rows, in order. A longer text is a group of its own."""
    group: list[Example] = []
    n_rows = 0
    for example in examples:
        if group and n_rows + example.n_rows > max_rows:
            yield group
            group, n_rows = [], 0
        group.append(example)
        n_rows += example.n_rows
    if group:
        yield group


def draft_indices(vocabulary: np.ndarray, n_vocab: int) -> np.ndarray:
    """[n_vocab]: where a token stands in the draft's vocabulary, -1 if nowhere."""
    indices = np.full(n_vocab, -1, np.int64)
    indices[vocabulary] = np.arange(len(vocabulary))
    return indices


def make_batch(group: Sequence[Example], indices: np.ndarray) -> Batch:
    """indices: draft_indices()."""
    lengths = [example.n_rows for example in group]
    join = lambda parts: np.concatenate(list(parts))
    padded = lambda values, fill=0: pad_rows(torch.from_numpy(values), fill)
    positions = join(np.arange(n) for n in lengths)
    is_answer = padded(positions >= np.repeat([example.first for example in group], lengths))
    answers = lambda values: torch.from_numpy(_spread(values, is_answer.numpy()))
    top = indices[join(example.features.top_ids for example in group)]
    probabilities = np.exp(join(example.features.top_logprobs for example in group))
    tail = np.clip(1 - probabilities.sum(1), 0, 1)
    return Batch(
        tokens=padded(join(example.features.tokens for example in group).astype(np.int64)),
        positions=padded(positions), texts=padded(np.repeat(np.arange(len(group)), lengths), -1),
        taps=_taps_before(group), is_answer=is_answer, top=answers(np.maximum(top, 0)),
        tail=answers(tail.astype(np.float32)), best=answers(top[:, 0]),
        top_probabilities=answers(np.where(top >= 0, probabilities, 0).astype(np.float32)))


def _spread(values: np.ndarray, is_answer: np.ndarray) -> np.ndarray:
    """Of the answers' rows -> of all rows, 0 in the others."""
    spread = np.zeros((len(is_answer), *values.shape[1:]), values.dtype)
    spread[is_answer] = values
    return spread


def _taps_before(group: Sequence[Example]) -> torch.Tensor | None:
    if group[0].features.taps is None:
        return None
    bits = np.concatenate([example.features.taps for example in group])
    # Into a first row of a text comes the last one of the text before; it is not looked at.
    return torch.roll(pad_rows(torch.from_numpy(bits).view(torch.bfloat16)), 1, 0)
