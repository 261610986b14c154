"""Attention of a draft that is trained on its own outputs.

A draft that proposes its s-th token of a round has a cache whose rows were made in different ways: those of committed
tokens from the main model's hidden states (step 1), the row of the j-th drafted token with j - 1 of the draft's own
outputs (step j). For all positions p of a text at once, row p of step s sees
  rows <= p - (s - 1) of step 1, and row p - (s - j) of step j for j = 2..s (of step s: itself).
"""

import dataclasses

import torch

from bass_draft.row_counts import chosen_rows

# Not -inf: rows that see nothing (positions < s - 1, which nobody uses) must not become NaN, whose gradient spreads.
_HIDDEN = -1e30


@dataclasses.dataclass
class Rows:
    """Where rows stand: texts [n_rows], positions [n_rows] within their texts."""

    texts: torch.Tensor
    positions: torch.Tensor

    def __getitem__(self, chosen: torch.Tensor) -> "Rows":
        return Rows(self.texts[chosen], self.positions[chosen])


@dataclasses.dataclass
class StepKeys:
    """Keys (rotated) and values of one step: [n_rows, n_kv_heads, head_dim]."""

    k: torch.Tensor
    v: torch.Tensor


def rotate(x: torch.Tensor, positions: torch.Tensor, base: float) -> torch.Tensor:  # [n_rows, n_heads, head_dim]
    """Turns the pairs (2i, 2i + 1) of each head by position * base^(-2i / head_dim)."""
    head_dim = x.shape[-1]
    frequencies = base ** (-torch.arange(0, head_dim, 2, device=x.device, dtype=torch.float32) / head_dim)
    angles = positions.float()[:, None] * frequencies
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    even, odd = x[..., 0::2].float(), x[..., 1::2].float()
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)


def rows_of_rounds(wanted: torch.Tensor, n_steps: int) -> torch.Tensor:
    """Indices of the rows that the rows `wanted` [n_rows] (bool) look at as drafted ones: themselves and n_steps - 1 in
    front of each. A few more may follow."""
    needed = wanted.clone()
    for distance in range(1, n_steps):
        needed[:-distance] |= wanted[distance:]
    return chosen_rows(needed)


def unrolled_attention(q: torch.Tensor, steps: list[StepKeys], rows: Rows, committed_rows: Rows) -> torch.Tensor:
    """Attention of the last of `steps`, whose queries are `rows`: [n_rows, n_heads, head_dim]. Step 1 has keys of all
    committed rows, later steps those of `rows`. Returns [n_rows, n_heads * head_dim]."""
    n_heads, head_dim = q.shape[1:]
    group = n_heads // steps[0].k.shape[1]
    q = q.float() * head_dim**-0.5
    committed = _by_head(steps[0].k, group)
    scores = torch.einsum("phd,qhd->hpq", q, committed)
    scores = scores.masked_fill(~_sees_committed(rows, committed_rows, len(steps)), _HIDDEN)
    # Rows of drafted tokens: [n_heads, n_rows, 1] a step.
    drafted = [(_by_head(torch.roll(step.k,
                                    len(steps) - j, 0), group), _by_head(torch.roll(step.v,
                                                                                    len(steps) - j, 0), group))
               for j, step in enumerate(steps[1:], 2)]
    own = [(q * k).sum(-1).T[..., None] for k, _ in drafted]
    weights = torch.softmax(torch.cat([scores, *own], -1), -1)
    n_committed = committed.shape[0]
    result = torch.einsum("hpq,qhd->phd", weights[..., :n_committed], _by_head(steps[0].v, group))
    for j, (_, v) in enumerate(drafted):
        result = result + weights[..., n_committed + j].T[..., None] * v
    return result.flatten(1)


def _sees_committed(rows: Rows, committed: Rows, step: int) -> torch.Tensor:
    """[n_rows, n_committed]: whether row p (first) sees row q (second) of step 1."""
    is_same = rows.texts[:, None] == committed.texts[None]
    return is_same & (committed.positions[None] <= rows.positions[:, None] - (step - 1))


def _by_head(x: torch.Tensor, group: int) -> torch.Tensor:
    """[n_rows, n_kv_heads, head_dim] -> [n_rows, n_heads, head_dim], float32."""
    return x.float().repeat_interleave(group, 1)
