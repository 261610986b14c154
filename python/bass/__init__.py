"""BASS: many sequences from one language model at once, by batched speculative decoding, exact.

    import bass

    engine = bass.Engine("smollm2")
    answer = engine.chat([{"role": "user", "content": "Why is the sky blue?"}], n=8, max_tokens=200)
    print(answer.best.text)

docs/python.md has more.
"""

from bass.engine import Engine, Job, Stream
from bass.errors import (
    CancelledError,
    Error,
    InternalError,
    InvalidArgumentError,
    InvalidFileError,
    ResourceExhaustedError,
    UnavailableError,
)
from bass.results import Choice, Completion, Piece, Score

__version__ = "0.1.0"
__all__ = [
    "CancelledError",
    "Choice",
    "Completion",
    "Engine",
    "Error",
    "InternalError",
    "InvalidArgumentError",
    "InvalidFileError",
    "Job",
    "Piece",
    "ResourceExhaustedError",
    "Score",
    "Stream",
    "UnavailableError",
]
