"""Where and with what precision the training computes."""

import contextlib
import os
import sys
import time
from collections.abc import Callable

import torch

from bass_draft.errors import UserError

# glibc gives large blocks back to the system and asks for them again each step; the page faults take most of the time.
# Threads that wait by spinning take the processor from the one that they wait for, where other programs run.
_SETTINGS = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "100000000000", "MALLOC_TOP_PAD_": "268435456",
             "OMP_WAIT_POLICY": "passive"}
_WORTH_IT = 0.8


def ensure_process_settings(arguments: list[str]) -> None:
    """Starts this process anew with glibc's and OpenMP's settings if they are not set: they are read once, at the start."""
    if not sys.platform.startswith("linux") or "MALLOC_MMAP_MAX_" in os.environ:
        return
    os.environ.update({**_SETTINGS, **os.environ})
    os.execv(sys.executable, [sys.executable, "-m", "bass_draft", *arguments])


def choose_device(name: str) -> str:
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError("--device cuda: PyTorch finds no CUDA device here; use --device cpu")
    return name


def choose_dtype(device: str, width: int) -> torch.dtype:
    """bfloat16 for matrix products where it is faster: on GPUs, and on CPUs that have instructions for it (measured)."""
    if device == "cuda":
        return torch.bfloat16
    times = {dtype: _seconds_of_product(dtype, width) for dtype in (torch.float32, torch.bfloat16)}
    return torch.bfloat16 if times[torch.bfloat16] < _WORTH_IT * times[torch.float32] else torch.float32


def _seconds_of_product(dtype: torch.dtype, width: int) -> float:
    x, w = torch.ones(512, width, dtype=dtype), torch.ones(8 * width, width, dtype=dtype)
    times = []
    for _ in range(4):
        start = time.perf_counter()
        torch.nn.functional.linear(x, w)
        times.append(time.perf_counter() - start)
    return min(times[1:])


def precision(device: str, dtype: torch.dtype) -> Callable[[], contextlib.AbstractContextManager]:
    """A context for forward passes."""
    if dtype == torch.float32:
        return contextlib.nullcontext
    return lambda: torch.autocast(device, dtype=dtype)
