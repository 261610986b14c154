"""A prompt's own tokens in the draft's head: the engine lets a draft propose what its vocabulary lacks of the prompt.

Texts that are packed together share one wider head, in which each text's rows have only its own prompt's tokens."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import torch
from torch.nn import functional

from bass_draft.batches import Batch, Example, make_batch
from bass_draft.main_model import MainHead
from bass_draft.model import DraftModel
from bass_draft.row_counts import pad_rows

MAX_TOKENS = 1024  # of one prompt, the last ones: as in the engine


@dataclasses.dataclass(frozen=True)
class Extension:
    """Tokens beside the vocabulary, ascending, and places behind them that are nobody's (row_counts.py): n_ext in all.
    rows: [n_ext, width] of the main model's head; is_own: [n_texts, n_ext], whether a text's prompt has the token; indices:
    [main_n_vocab], draft_indices() of both."""

    rows: torch.Tensor
    is_own: torch.Tensor
    indices: np.ndarray
    bias: torch.Tensor | None = None  # [n_ext]

    def logits(self, model: DraftModel, h: torch.Tensor, texts: torch.Tensor) -> torch.Tensor:
        """[n, n_draft_vocab + n_ext] of the first rows of h [at least n, width], which are of the texts [n]."""
        normed = model.output_norm(h)
        logits = model.head_logits(normed)[:len(texts)]
        more = functional.linear(normed.to(self.rows.dtype), self.rows)[:len(texts)]
        more = more if self.bias is None else more + self.bias
        return torch.cat((logits, more.masked_fill(~self.is_own[texts], -torch.inf).to(logits.dtype)), -1)


@dataclasses.dataclass(frozen=True)
class ExtendedBatch:
    """A batch whose teacher's tokens are indices into the draft's vocabulary and, where the draft uses the main model's
    head, what the prompts add to it."""

    batch: Batch
    extension: Extension | None

    def logits(self, model: DraftModel, h: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """Of the rows `rows` [n] of the batch; h: [n_rows, width] of all of them."""
        h = pad_rows(h[rows])
        if self.extension is None:
            return model.logits(h)[:len(rows)]
        return self.extension.logits(model, h, self.batch.texts[rows])


def make_extended_batch(model: DraftModel, group: Sequence[Example], indices: np.ndarray, device: str) -> ExtendedBatch:
    """indices: draft_indices() of the model's vocabulary. On the device."""
    extension = None if model.main_rows is None else extend(group, indices, model.main_rows, model.main_head)
    batch = make_batch(group, indices if extension is None else extension.indices)
    return ExtendedBatch(batch.to(device), extension)


def prompt_tokens(example: Example, indices: np.ndarray) -> np.ndarray:
    """The distinct tokens of the text's prompt that the vocabulary lacks. indices: draft_indices()."""
    prompt = np.asarray(example.features.tokens[:example.first + 1])
    beside = prompt[indices[prompt] < 0][::-1]
    _, last = np.unique(beside, return_index=True)
    return np.sort(beside[np.sort(last)[:MAX_TOKENS]])


def extend(group: Sequence[Example], indices: np.ndarray, head: MainHead, like: torch.Tensor) -> Extension:
    """For texts that are packed together. like: a tensor on the device and of the type that rows are wanted in."""
    own = [prompt_tokens(example, indices) for example in group]
    ids = np.unique(np.concatenate(own)).astype(np.int64)
    both = indices.copy()
    both[ids] = indices.max() + 1 + np.arange(len(ids))
    padded = lambda values: pad_rows(torch.from_numpy(values))
    is_own = padded(np.stack([np.isin(ids, tokens) for tokens in own], 1)).T.to(like.device)
    bias = head.bias(ids)
    return Extension(padded(head.rows(ids)).to(like), is_own, both, None if bias is None else padded(bias).to(like.device))
