"""Settings that a process takes from its environment at its start."""

import os
import sys

from bass_draft.signals import hold_back

# glibc gives large blocks back to the system and asks for them again each step; the page faults take most of the time.
# Threads that wait by spinning take the processor from the one that they wait for, where other programs run, and those that
# do not have to be woken for each of a thousand small operations a step: they spin for about as long as waking takes.
_SETTINGS = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "100000000000", "MALLOC_TOP_PAD_": "268435456"}
_WAITING = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "1000"}  # the second one is GNU's, and stronger


def ensure_process_settings() -> None:
    """Starts this process anew with glibc's and OpenMP's settings if they are not set: they are read once. In the same way as
    it was started: `-m` would look for modules in the current folder."""
    if not sys.platform.startswith("linux") or "MALLOC_MMAP_MAX_" in os.environ:
        return
    waiting = {} if _WAITING.keys() & os.environ.keys() else _WAITING
    os.environ.update({**_SETTINGS, **waiting, **os.environ})
    hold_back()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
