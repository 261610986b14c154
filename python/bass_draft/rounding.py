"""Training on the weights that the file will have: in 4 bits they lose acceptance, unless the training knows of it."""

import contextlib
from collections.abc import Iterator

import torch

from bass_draft.main_model import GROUP

ROUNDED_TYPES = ("q4_0",)  # what others lose cannot be measured


@contextlib.contextmanager
def rounded_matrices(model: torch.nn.Module, matrix_type: str) -> Iterator[None]:
    """While it lasts the matrices of `model` have the values of a file of that type (export.py). Gradients that are
    taken then are those of the rounded ones, for the exact ones (straight-through estimation, arXiv 1308.3432)."""
    exact = [(parameter, parameter.data) for parameter in model.parameters() if _is_rounded(parameter, matrix_type)]
    try:
        for parameter, values in exact:
            parameter.data = round_to_q4_0(values)
        yield
    finally:
        for parameter, values in exact:
            parameter.data = values


def _is_rounded(parameter: torch.Tensor, matrix_type: str) -> bool:
    return matrix_type in ROUNDED_TYPES and parameter.dim() == 2 and parameter.shape[1] % GROUP == 0


@torch.no_grad()
def round_to_q4_0(values: torch.Tensor) -> torch.Tensor:
    """[n_out, n_in], float32, as Q4_0 has them: per 32 numbers of a row a scale in float16, which makes the largest
    of them -8, and 4 bits a number."""
    groups = values.view(-1, GROUP)
    largest = groups.gather(1, groups.abs().argmax(1, keepdim=True))
    scale = largest / -8
    inverse = torch.where(scale == 0, torch.zeros_like(scale), 1 / scale)
    levels = (groups * inverse).add_(8.5).floor_().clamp_(0, 15).sub_(8)
    return levels.mul_(scale.half().float()).view_as(values)
