"""What the figures were measured on."""
import importlib.metadata
import os
import pathlib
import platform
import subprocess

# The instruction sets that the engines choose their kernels by.
FLAGS = ("avx2", "avx_vnni", "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8",
         "amx_bf16")


def parse_cpuinfo(text):
    """Model and instruction sets of the first processor in /proc/cpuinfo."""
    fields = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name.strip(), value.strip())
    flags = set(fields.get("flags", "").split())
    family = [f"{name} {fields[key]}" for name, key in (("family", "cpu family"), ("model", "model")) if key in fields]
    return {"processor": fields.get("model name", platform.machine()), "processor_id": ", ".join(family),
            "instruction_sets": [flag for flag in FLAGS if flag in flags]}


def facts():
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {**parse_cpuinfo(cpuinfo.read_text(encoding="utf-8") if cpuinfo.exists() else ""),
            "processors": len(os.sched_getaffinity(0)), "memory_gib": round(memory_bytes / 2**30, 1),
            "system": f"{platform.system()} {platform.release()}"}


def versions(bass_binary):
    found = {name: importlib.metadata.version(name) for name in ("openvino-genai", "llama-cpp-python")}
    done = subprocess.run([bass_binary, "--version"], capture_output=True, text=True, check=False)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False,
                            cwd=pathlib.Path(__file__).parent)
    found["bass"] = f"{done.stdout.strip().removeprefix('bass ')} ({commit.stdout.strip() or 'no commit'})"
    return found
