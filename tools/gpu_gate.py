#!/usr/bin/env python3
"""Compiles the GPU kernels once more and looks at what ptxas says of them: spills and registers.

  tools/gpu_gate.py BUILD_FOLDER [--list]

BUILD_FOLDER is one of a build with BASS_CUDA (its compile_commands.json says how). A kernel fails that spills registers
to memory, or that uses so many that fewer than the wanted number of threads fit a multiprocessor.
"""
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile

# 65536 registers of a multiprocessor for at least 384 threads. Kernels that need more say why here.
MAX_REGISTERS = 168
EXCEPTIONS = {}


def cuda_commands(folder):
    """[(source, arguments)] of all .cu files."""
    with open(os.path.join(folder, "compile_commands.json")) as file:
        entries = json.load(file)
    return [(entry["file"], shlex.split(entry["command"]), entry["directory"])
            for entry in entries if entry["file"].endswith(".cu")]


def ptxas_report(arguments, directory):
    """What nvcc prints; the object goes to a temporary file."""
    arguments = list(arguments)
    with tempfile.TemporaryDirectory() as folder:
        arguments[arguments.index("-o") + 1] = os.path.join(folder, "kernels.o")
        done = subprocess.run(arguments, cwd=directory, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stdout + done.stderr)
    return done.stdout + done.stderr


def kernels_in(report):
    """{kernel: {registers, spills, stack}}; the highest over the architectures."""
    kernels = {}
    name = None
    for line in report.splitlines():
        if found := re.search(r"Compiling entry function '([^']+)' for", line):
            name = demangled(found[1])
        elif name and (found := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill", line)):
            entry = kernels.setdefault(name, {"registers": 0, "spills": 0, "stack": 0})
            entry["stack"] = max(entry["stack"], int(found[1]))
            entry["spills"] = max(entry["spills"], int(found[2]) + int(found[3]))
        elif name and (found := re.search(r"Used (\d+) registers", line)):
            entry = kernels.setdefault(name, {"registers": 0, "spills": 0, "stack": 0})
            entry["registers"] = max(entry["registers"], int(found[1]))
    return kernels


def demangled(symbol):
    """The kernel's struct: run_kernel<bass::cuda::NAME>."""
    text = subprocess.run(["c++filt", symbol], capture_output=True, text=True).stdout.strip()
    found = re.search(r"run_kernel<bass::cuda::(.+?)>\(", text)
    return found[1] if found else text


def main():
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    kernels = {}
    for _, arguments, directory in cuda_commands(sys.argv[1]):
        kernels.update(kernels_in(ptxas_report(arguments, directory)))
    if not kernels:
        raise SystemExit("error: ptxas said nothing of any kernel: is -Xptxas -v among the options?")
    failures = []
    for name, kernel in sorted(kernels.items()):
        limit = EXCEPTIONS.get(name, MAX_REGISTERS)
        if "--list" in sys.argv:
            print(f"{name}: {kernel['registers']} registers, {kernel['stack']} bytes of stack, {kernel['spills']} spilled")
        if kernel["spills"] > 0:
            failures.append(f"{name} spills {kernel['spills']} bytes")
        if kernel["registers"] > limit:
            failures.append(f"{name} uses {kernel['registers']} registers, {limit} are allowed")
    print(f"{len(kernels)} kernels, at most {max(k['registers'] for k in kernels.values())} registers")
    for failure in failures:
        print(f"error: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
