"""What tests share: the tool as a program, the engine, a tiny main model."""

import json
import os
import pathlib
import signal
import subprocess
import sys
from dataclasses import dataclass

import pytest

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = HERE.parent
TINY = PACKAGE.parent / "tests" / "data" / "tiny"
TIMEOUT_S = 300
sys.path.insert(0, str(PACKAGE))


@dataclass
class Finished:
    code: int
    out: str
    err: str

    def json(self):
        return json.loads(self.out)


def environment(bass):
    names = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    return {**names, "PYTHONPATH": str(PACKAGE), "BASS_BINARY": str(bass), "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="session", autouse=True)
def no_signal_is_ignored():
    """A script's `command &` ignores these, which the tool keeps: tests that send them must not depend on who runs them."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


@pytest.fixture(scope="session")
def bass():
    """The engine's program."""
    path = os.environ.get("BASS_BINARY", "")
    if not os.access(path, os.X_OK):
        pytest.skip("BASS_BINARY names no program")
    return pathlib.Path(path).resolve()


@pytest.fixture(scope="session")
def tiny():
    return TINY / "tiny_gqa_tied_f32.gguf"


@pytest.fixture
def start():
    """start(bass, *arguments): the tool as a process that can be killed; ended after the test."""
    processes = []

    def call(bass, *arguments):
        process = subprocess.Popen([sys.executable, "-m", "bass_draft", *map(str, arguments)], env=environment(bass),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        processes.append(process)
        return process

    yield call
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture
def run(start):
    """run(bass, *arguments): the tool, to its end."""

    def call(bass, *arguments):
        process = start(bass, *arguments)
        out, err = process.communicate(timeout=TIMEOUT_S)
        return Finished(process.returncode, out, err)

    return call
