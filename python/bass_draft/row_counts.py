"""How many rows a matrix product has: one of few counts.

PyTorch compiles a bfloat16 product on a CPU anew for each size that it has not met lately, which takes ten times as long as
the product; and no two batches have the same number of rows, of answers, or of tokens beside the vocabulary."""

import torch
from torch.nn import functional

_STEP = 32


def _n_missing(n_rows: int) -> int:
    return -n_rows % _STEP


def pad_rows(x: torch.Tensor, fill: float = 0) -> torch.Tensor:
    """[n, ...] -> [at least n, ...]"""
    return functional.pad(x, (0, 0) * (x.dim() - 1) + (0, _n_missing(len(x))), value=fill)


def chosen_rows(is_needed: torch.Tensor) -> torch.Tensor:
    """Indices of the rows that are needed (bool [n_rows]), ascending, and as far as there are any of others behind them."""
    needed, others = is_needed.nonzero().flatten(), (~is_needed).nonzero().flatten()
    return torch.cat((needed, others[len(others) - min(_n_missing(len(needed)), len(others)):]))
