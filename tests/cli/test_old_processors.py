"""Processors that lack what this one has: the program runs on them, with the same bytes.

qemu-user runs the program with fewer instructions than this processor has; one that it lacks ends it, as it would there. A function
of an instruction set's file that runs before the processor is known to have the set shows here and nowhere else."""
import json
import os
import shutil
import subprocess

import pytest

from conftest import TIMEOUT_S

EMULATOR = shutil.which("qemu-x86_64")
pytestmark = pytest.mark.skipif(EMULATOR is None, reason="qemu-x86_64 (Debian: qemu-user) is not installed")
GENERATE = ("-p", "def f(", "-n", "4", "--seed", "1", "--max-tokens", "16", "--ignore-eos", "--json", "--threads", "2")


def run_on(processor, binary, folder, *arguments, env=None):
    done = subprocess.run([EMULATOR, "-cpu", processor, binary, *arguments], capture_output=True, timeout=TIMEOUT_S,
                          cwd=folder, env={**os.environ, **(env or {})}, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def texts(output):
    return [(choice["token_ids"], choice["logprobs"]) for choice in json.loads(output)["prompts"][0]["choices"]]


@pytest.mark.parametrize("processor, sets", [("core2duo", "scalar"), ("EPYC-Rome", "scalar, avx2")])
def test_a_processor_with_less_gives_the_same_bytes(run, binary, tiny, tmp_path, processor, sets):
    code, out, errors = run_on(processor, binary, tmp_path, "generate", "-m", tiny, *GENERATE)
    assert code == 0, f"{processor}: exit code {code} (-4: an instruction that it lacks)\n{errors}"
    assert texts(out) == texts(run("generate", "-m", tiny, *GENERATE).out)

    code, _, errors = run_on(processor, binary, tmp_path, "generate", "-m", tiny, *GENERATE, env={"BASS_FORCE_ISA": "mmx"})
    assert code == 2 and f"this processor has {sets} (" in errors  # the emulator hides what the test says that it hides
