"""SIGINT and SIGTERM as a wish to stop at the next good moment."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_children: list[subprocess.Popen] = []
_listening: "Stop | None" = None


@contextlib.contextmanager
def ended_by_signals(process: subprocess.Popen) -> Iterator[None]:
    """A signal that is noted, also before the process began, ends it too: what it works on would not be used. So does an
    exception."""
    _children.append(process)
    if _listening is not None and _listening.signal_number is not None:
        process.terminate()
    try:
        yield
    except BaseException:
        process.kill()
        raise
    finally:
        _children.remove(process)


def end_at_once() -> None:
    """For the time in which modules are imported: some make another error of an exception, and nothing is open yet."""

    def end(number: int, _: FrameType | None) -> None:
        os.write(2, b"stopped\n")
        os._exit(128 + number)

    _handle(end)


def end_by_exception() -> None:
    """Of both signals, so that what is temporary is removed on the way out."""

    def end(number: int, _: FrameType | None) -> None:
        raise KeyboardInterrupt(number)

    _handle(end)


def _handle(handler: Callable[[int, FrameType | None], None]) -> None:
    for number in _heard():
        signal.signal(number, handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)


def _heard() -> list[signal.Signals]:
    """Those that are not ignored, as in a shell's background."""
    return [number for number in _SIGNALS if signal.getsignal(number) != signal.SIG_IGN]


def hold_back() -> None:
    """Signals wait for end_at_once(), also that of another program that this process becomes."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)


class Stop:
    """Within its `with` the first signal is noted; a second one ends the process as it would have."""

    def __init__(self) -> None:
        self.signal_number: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Stop":
        global _listening
        _listening = self
        for number in _heard():
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        global _listening
        _listening = None
        self._restore()

    def _note(self, number: int, _: FrameType | None) -> None:
        self.signal_number = number
        self._restore()
        for process in _children:
            process.terminate()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()
