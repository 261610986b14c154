#!/usr/bin/env python3
"""Compiles the GPU kernels once more and looks at what ptxas says of them: spills and registers.

  tools/gpu_gate.py BUILD_FOLDER [--list]
  tools/gpu_gate.py --negative-control    shows that machine code with a register that nothing writes is found

BUILD_FOLDER is one of a build with BASS_CUDA (its compile_commands.json says how). A kernel fails that spills registers
to memory, or that uses so many that fewer than the wanted number of threads fit a multiprocessor; and, where there is a
cuobjdump, one whose machine code reads uniform registers that nothing has written.
"""
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

# 65536 registers of a multiprocessor for at least 384 threads.
MAX_REGISTERS = 168
# A single thread decides for the whole batch: nobody else wants its registers. For sm_100 they spill some.
OF_ONE_THREAD = {"bass::choose_goodput_lengths", "bass::weigh_running_sequences"}


def cuda_commands(folder):
    """[(source, arguments)] of all .cu files."""
    with open(os.path.join(folder, "compile_commands.json")) as file:
        entries = json.load(file)
    return [(entry["file"], shlex.split(entry["command"]), entry["directory"])
            for entry in entries if entry["file"].endswith(".cu")]


def compiled(arguments, directory):
    """What nvcc prints, and cuobjdump's text of the machine code (empty where there is no cuobjdump); the object goes to a
    temporary file."""
    arguments = list(arguments)
    with tempfile.TemporaryDirectory() as folder:
        path = arguments[arguments.index("-o") + 1] = os.path.join(folder, "kernels.o")
        done = subprocess.run(arguments, cwd=directory, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(done.stdout + done.stderr)
        sass = ""
        if shutil.which("cuobjdump"):
            sass = subprocess.run(["cuobjdump", "--dump-sass", path], capture_output=True, text=True, check=True).stdout
    return done.stdout + done.stderr, sass


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
    """The kernel's struct, of run_kernel<bass::cuda::NAME>, or its function's name."""
    text = subprocess.run(["c++filt", symbol], capture_output=True, text=True).stdout.strip()
    found = re.search(r"run_kernel<bass::cuda::(.+?)>\(", text)
    return found[1] if found else text.split("(")[0]


def undefined_registers(sass):
    """{function: [instructions]} that read a uniform register which no instruction of the function writes, of cuobjdump's
    machine code: ptxas 13.0 has made such ones of copies with a cache policy, and a GPU answers with an illegal instruction."""
    found = {}
    for text in re.split(r"\n\s*Function : ", sass)[1:]:
        written, read = set(), {}
        for instruction in re.findall(r"/\*[0-9a-f]{4,}\*/\s+(.*?) ;", text):
            body = re.sub(r"^@!?U?P\w+\s+", "", instruction.strip())
            registers = [int(register) for register in re.findall(r"\bUR(\d+)\b", body)]
            target = re.match(r"(?:U\w+|S2UR|R2UR|VOTEU|C?REDUX)\S*\s+(?:!?UP\w+,\s*)*UR(\d+)\b", body)
            if target:
                is_wide = re.search(r"64|WIDE", body.split()[0])
                written.update(range(int(target[1]), int(target[1]) + (2 if is_wide else 1)))
                registers = registers[1:]
            for register in registers:
                read.setdefault(register, instruction)
        missing = [instruction for register, instruction in read.items() if register not in written]
        if missing:
            found[demangled(text.split()[0])] = missing
    return found


def negative_control():
    sound = """
\tFunction : sound
        /*0010*/                   UMOV UR4, 0xf0 ;
        /*0020*/                   ULDC.64 UR6, c[0x0][0x208] ;
        /*0030*/               @P2 LDGSTS.E.BYPASS.LTC128B.128 [R35+UR4], desc[UR6][R72.64] ;
"""
    broken = sound.replace("desc[UR6]", "desc[UR1]").replace("sound", "broken")
    return 0 if list(undefined_registers(sound + broken)) == ["broken"] else 1


def main():
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    if sys.argv[1] == "--negative-control":
        return negative_control()
    kernels, undefined = {}, {}
    has_sass = False
    for _, arguments, directory in cuda_commands(sys.argv[1]):
        report, sass = compiled(arguments, directory)
        kernels.update(kernels_in(report))
        undefined.update(undefined_registers(sass))
        has_sass = has_sass or bool(sass)
    if not kernels:
        raise SystemExit("error: ptxas said nothing of any kernel: is -Xptxas -v among the options?")
    failures = []
    for name, kernel in sorted(kernels.items()):
        if "--list" in sys.argv:
            print(f"{name}: {kernel['registers']} registers, {kernel['stack']} bytes of stack, {kernel['spills']} spilled")
        if name in OF_ONE_THREAD:
            continue
        if kernel["spills"] > 0:
            failures.append(f"{name} spills {kernel['spills']} bytes")
        if kernel["registers"] > MAX_REGISTERS:
            failures.append(f"{name} uses {kernel['registers']} registers, {MAX_REGISTERS} are allowed")
    failures += [f"{name} reads a register that nothing writes: {read[0]}" for name, read in sorted(undefined.items())]
    print(f"{len(kernels)} kernels, at most {max(k['registers'] for k in kernels.values())} registers; machine code " +
          ("was looked at" if has_sass else "was not looked at: there is no cuobjdump"))
    for failure in failures:
        print(f"error: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
