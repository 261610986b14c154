"""The draft in PyTorch. The names of its parameters are those of the GGUF tensors."""

from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional

from bass_draft.shape import DraftShape
from bass_draft.unroll import Rows, StepKeys, rotate, rows_of_rounds, unrolled_attention

if TYPE_CHECKING:
    from bass_draft.main_model import MainHead

# A batch is one row a position, n_rows in all, of texts packed one after the other: bass_draft/batches.py.


def rms_norm(x: torch.Tensor, epsilon: float) -> torch.Tensor:  # [n_rows, width]
    wide = x.float()
    return wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon)


class Norm(nn.Module):
    def __init__(self, width: int, epsilon: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.epsilon = epsilon

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return rms_norm(x, self.epsilon) * self.weight


def matrix(n_in: int, n_out: int) -> nn.Linear:
    return nn.Linear(n_in, n_out, bias=False)


class Block(nn.Module):
    """A layer as llama has it."""

    def __init__(self, shape: DraftShape):
        super().__init__()
        self.shape = shape
        width, q_width, kv_width = shape.width, shape.n_heads * shape.head_dim, shape.n_kv_heads * shape.head_dim
        self.attn_norm = Norm(width, shape.norm_epsilon)
        self.attn_q, self.attn_k = matrix(width, q_width), matrix(width, kv_width)
        self.attn_v, self.attn_output = matrix(width, kv_width), matrix(q_width, width)
        self.ffn_norm = Norm(width, shape.norm_epsilon)
        self.ffn_gate, self.ffn_up = matrix(width, shape.n_ff), matrix(width, shape.n_ff)
        self.ffn_down = matrix(shape.n_ff, width)

    def forward(self, x: torch.Tensor, rows: Rows, committed: Rows, steps: list[StepKeys],
                chosen: torch.Tensor | None = None) -> torch.Tensor:
        """x: [n_rows, width]. Appends this step's keys and values to `steps`, of all rows; goes on with the rows
        `chosen` (indices) alone, where they are given."""
        shape = self.shape
        heads = lambda values, n_heads: values.view(len(values), n_heads, shape.head_dim)
        y = self.attn_norm(x)
        k, v = heads(self.attn_k(y), shape.n_kv_heads), heads(self.attn_v(y), shape.n_kv_heads)
        steps.append(StepKeys(rotate(k, rows.positions, shape.rope_base), v))
        if chosen is not None:
            x, y, rows = x[chosen], y[chosen], rows[chosen]
        q = rotate(heads(self.attn_q(y), shape.n_heads), rows.positions, shape.rope_base)
        x = x + self.attn_output(unrolled_attention(q, steps, rows, committed))
        y = self.ffn_norm(x)
        return x + self.ffn_down(functional.silu(self.ffn_gate(y)) * self.ffn_up(y))


class Reader(nn.Module):
    """What stands in front of the layers: the main model's embedding rows and, with taps, its hidden states."""

    def __init__(self, shape: DraftShape):
        super().__init__()
        self.epsilon = shape.norm_epsilon
        self.embed_norm = Norm(shape.main_width, shape.norm_epsilon)
        n_inputs = shape.main_width
        if shape.n_taps:
            self.tap_norm = nn.Module()
            self.tap_norm.weight = nn.Parameter(torch.ones(shape.n_taps * shape.main_width))
            self.tap = matrix(shape.n_taps * shape.main_width, shape.width)
            self.feature_norm = Norm(shape.width, shape.norm_epsilon)
            n_inputs += shape.width
        self.input = matrix(n_inputs, shape.width)

    def feature(self, taps: torch.Tensor, has_taps: torch.Tensor) -> torch.Tensor:
        """[n_rows, width]: g of the first step. taps: [n_rows, n_taps, main_width], the hidden states of the position
        before; has_taps: [n_rows], false for first positions, whose g is 0."""
        normed = rms_norm(taps, self.epsilon).flatten(1) * self.tap_norm.weight
        return self.tap(normed) * has_taps[:, None]

    def forward(self, embedded: torch.Tensor, feature: torch.Tensor | None) -> torch.Tensor:
        parts = [self.embed_norm(embedded)]
        if feature is not None:
            parts.append(self.feature_norm(feature))
        return self.input(torch.cat(parts, -1))


class DraftModel(nn.Module):
    """Embedding [main_n_vocab, main_width], frozen head [n_draft_vocab, width] and its bias [n_draft_vocab], where it has
    one, are the main model's: not saved."""

    def __init__(self, shape: DraftShape, embedding: torch.Tensor, head: torch.Tensor | None, n_draft_vocab: int,
                 head_bias: torch.Tensor | None = None):
        super().__init__()
        self.shape = shape
        self.register_buffer("embedding", embedding, persistent=False)
        if shape.has_input:
            self.draft = Reader(shape)
        self.blk = nn.ModuleList(Block(shape) for _ in range(shape.n_layers))
        self.output_norm = Norm(shape.width, shape.norm_epsilon)
        if shape.has_head:
            self.output = matrix(shape.width, n_draft_vocab)
        else:
            self.register_buffer("main_head", head, persistent=False)
            self.register_buffer("main_head_bias", head_bias, persistent=False)
        self.main_rows: MainHead | None = None  # where more rows of that head come from (extension.py)

    def unroll(self, tokens: torch.Tensor, positions: torch.Tensor, texts: torch.Tensor, taps: torch.Tensor | None,
               n_steps: int, wanted: torch.Tensor | None = None) -> list[torch.Tensor]:
        """h of every step: [n_rows, width] each. tokens, positions (within the text), texts (which one): [n_rows];
        taps: [n_rows, n_taps, main_width] of the position before. In step s (from 1) the draft has seen hidden states
        up to s - 1 positions back only, and its own h after that: what it has when it drafts the s-th token of a round.
        Rows at positions < s - 1 have no meaning in step s, nor those that are not `wanted` (bool [n_rows]; None: all):
        of a prompt's rows the last layer needs keys and values alone, which are a fifth of its work."""
        embedded = self.embedding[tokens].float()
        committed = Rows(texts, positions)
        chosen = None if wanted is None else rows_of_rounds(wanted, n_steps)
        states: list[torch.Tensor] = []
        steps: list[list[StepKeys]] = [[] for _ in self.blk]
        rows, rows_embedded = committed, embedded
        for step in range(n_steps):
            x = rows_embedded
            if self.shape.has_input:
                x = self.draft(rows_embedded, self._feature(taps, positions, states))
            for block, keys in zip(self.blk, steps):
                is_last = block is self.blk[-1]  # layers in front of it read every row
                x = block(x, rows, committed, keys, chosen if step == 0 and is_last else None)
            if step == 0 and chosen is not None:
                rows, rows_embedded = committed[chosen], embedded[chosen]
            states.append(x)
        if chosen is None:
            return states
        return [x.new_zeros(len(tokens), x.shape[1]).index_copy(0, chosen, x) for x in states]

    def _feature(self, taps: torch.Tensor | None, positions: torch.Tensor,
                 states: list[torch.Tensor]) -> torch.Tensor | None:
        if not self.shape.n_taps:
            return None
        if not states:
            return self.draft.feature(taps, positions > 0)
        return torch.roll(states[-1], 1, 0)  # h of the position before, from the step before

    def logits(self, h: torch.Tensor) -> torch.Tensor:  # [n_rows, width] -> [n_rows, n_draft_vocab]
        return self.head_logits(self.output_norm(h))

    def head_logits(self, normed: torch.Tensor) -> torch.Tensor:  # the same, behind the norm
        if self.shape.has_head:
            return self.output(normed)
        logits = functional.linear(normed.to(self.main_head.dtype), self.main_head)
        return logits if self.main_head_bias is None else logits + self.main_head_bias
