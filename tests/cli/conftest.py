"""The command line, run as a person would. BASS_BINARY is the program; BASS_TEST_MODEL the default model's file."""
import json
import os
import pathlib
import resource
import signal
import subprocess
from dataclasses import dataclass

import pytest

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
TIMEOUT_S = 300


@dataclass
class Finished:
    code: int
    out: str
    err: str
    cpu_seconds: float  # not the time that passed: other programs may be running

    def json(self):
        return json.loads(self.out)


@pytest.fixture(scope="session", autouse=True)
def no_signal_is_ignored():
    """A script's `command &` ignores these, which bass keeps: tests that send them must not depend on who runs them."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


@pytest.fixture(scope="session")
def binary():
    path = os.environ.get("BASS_BINARY", "")
    assert os.access(path, os.X_OK), "BASS_BINARY must name the bass program; run tools/test.sh"
    return os.path.abspath(path)


@pytest.fixture(scope="session")
def smollm2():
    """The real model: for what takes long enough to be interrupted."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    path = os.environ.get("BASS_TEST_MODEL") or f"{cache}/bass/SmolLM2-135M-Instruct.Q4_1.gguf"
    assert os.path.isfile(path), f"{path} is not there; run tools/test.sh, which fetches the model"
    return path


@pytest.fixture(scope="session")
def tiny():
    return str(DATA / "tiny" / "tiny_gqa_tied_q4_1.gguf")


@pytest.fixture
def run(binary, tmp_path):
    """run(*arguments, stdin=b"", stdout=None, env={}): runs bass to its end in an empty folder."""

    def call(*arguments, stdin=b"", stdout=subprocess.PIPE, env=None):
        start = cpu_seconds_of_children()
        done = subprocess.run([binary, *map(os.fsencode, map(str_or_bytes, arguments))], input=stdin, stdout=stdout,
                              stderr=subprocess.PIPE, timeout=TIMEOUT_S, cwd=tmp_path, env={**os.environ, **(env or {})},
                              check=False)
        return Finished(done.returncode, (done.stdout or b"").decode("utf-8", "surrogateescape"),
                        done.stderr.decode("utf-8", "replace"), cpu_seconds_of_children() - start)

    return call


def cpu_seconds_of_children():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def str_or_bytes(argument):
    return argument if isinstance(argument, bytes) else str(argument)
