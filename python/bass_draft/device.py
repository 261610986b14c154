"""Where and with what precision the training computes."""

import contextlib
import time
from collections.abc import Callable

import torch

from bass_draft.errors import UserError

_WORTH_IT = 0.8
_MEASURE_S = 0.5  # at least 4 products
_WORTH_MEASURING = 256  # width: products of smaller matrices are over before a clock can tell


def choose_device(name: str) -> str:
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError("--device cuda: PyTorch finds no CUDA device here; use --device cpu")
    return name


def choose_dtype(device: str, width: int) -> torch.dtype:
    """bfloat16 for matrix products where it is faster: on GPUs, and on CPUs that have instructions for
    it (measured)."""
    if device == "cuda":
        return torch.bfloat16
    if width < _WORTH_MEASURING:
        return torch.float32
    times = {dtype: _seconds_of_product(dtype, width) for dtype in (torch.float32, torch.bfloat16)}
    return torch.bfloat16 if times[torch.bfloat16] < _WORTH_IT * times[torch.float32] else torch.float32


def _seconds_of_product(dtype: torch.dtype, width: int) -> float:
    x, w = torch.ones(512, width, dtype=dtype), torch.ones(8 * width, width, dtype=dtype)
    times = []
    begin = time.perf_counter()
    while len(times) < 4 or time.perf_counter() - begin < _MEASURE_S:  # others may work beside for a while
        start = time.perf_counter()
        torch.nn.functional.linear(x, w)
        times.append(time.perf_counter() - start)
    return min(times[1:])


def precision(device: str, dtype: torch.dtype) -> Callable[[], contextlib.AbstractContextManager]:
    """A context for forward passes."""
    if dtype == torch.float32:
        return contextlib.nullcontext
    return lambda: torch.autocast(device, dtype=dtype)
