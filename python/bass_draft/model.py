"""The draft in PyTorch. The names of its parameters are those of the GGUF tensors."""

from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional

from bass_draft.shape import DraftShape
from bass_draft.unroll import StepKeys, rotate, unrolled_attention

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

    def forward(self, x: torch.Tensor, positions: torch.Tensor, texts: torch.Tensor,
                steps: list[StepKeys]) -> torch.Tensor:
        """x: [n_rows, width]. Appends this step's keys and values to `steps`."""
        shape, n_rows = self.shape, x.shape[0]
        y = self.attn_norm(x)
        q = self.attn_q(y).view(n_rows, shape.n_heads, shape.head_dim)
        k = self.attn_k(y).view(n_rows, shape.n_kv_heads, shape.head_dim)
        v = self.attn_v(y).view(n_rows, shape.n_kv_heads, shape.head_dim)
        steps.append(StepKeys(rotate(k, positions, shape.rope_base), v))
        x = x + self.attn_output(unrolled_attention(rotate(q, positions, shape.rope_base), steps, positions, texts))
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
    """Embedding [main_n_vocab, main_width] and frozen head [n_draft_vocab, width] are the main model's: not saved."""

    def __init__(self, shape: DraftShape, embedding: torch.Tensor, head: torch.Tensor | None, n_draft_vocab: int):
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
        self.main_rows: MainHead | None = None  # where more rows of that head come from (extension.py)

    def unroll(self, tokens: torch.Tensor, positions: torch.Tensor, texts: torch.Tensor, taps: torch.Tensor | None,
               n_steps: int) -> list[torch.Tensor]:
        """h of every step: [n_rows, width] each. tokens, positions (within the text), texts (which one): [n_rows];
        taps: [n_rows, n_taps, main_width] of the position before. In step s (from 1) the draft has seen hidden states
        up to s - 1 positions back only, and its own h after that: what it has when it drafts the s-th token of a round.
        Rows at positions < s - 1 have no meaning in step s."""
        embedded = self.embedding[tokens].float()
        states: list[torch.Tensor] = []
        steps: list[list[StepKeys]] = [[] for _ in self.blk]
        for step in range(n_steps):
            x = embedded
            if self.shape.has_input:
                x = self.draft(embedded, self._feature(taps, positions, states))
            for block, keys in zip(self.blk, steps):
                x = block(x, positions, texts, keys)
            states.append(x)
        return states

    def _feature(self, taps: torch.Tensor | None, positions: torch.Tensor,
                 states: list[torch.Tensor]) -> torch.Tensor | None:
        if not self.shape.n_taps:
            return None
        if not states:
            return self.draft.feature(taps, positions > 0)
        return torch.roll(states[-1], 1, 0)  # h of the position before, from the step before

    def logits(self, h: torch.Tensor) -> torch.Tensor:  # [n_rows, width] -> [n_rows, n_draft_vocab]
        normed = self.output_norm(h)
        if self.shape.has_head:
            return self.output(normed)
        return functional.linear(normed.to(self.main_head.dtype), self.main_head)
