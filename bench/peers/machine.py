"""What the figures were measured on."""
import importlib.metadata
import os
import pathlib
import platform
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

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


def in_words(result):
    """Of a result's "machine", which facts() gave, and its "date"."""
    machine = result["machine"]
    return (f"{machine['processor']} ({machine['processor_id']}; {' '.join(machine['instruction_sets'])}), "
            f"{machine['processors']} processors, {machine['memory_gib']} GiB, {result['date']}")


def processor_seconds(stat):
    """Of the first line of /proc/stat: (seconds in use, time stolen by the hypervisor included; all seconds)."""
    # user nice system idle iowait irq softirq steal
    ticks = [int(value) for value in stat.splitlines()[0].split()[1:9]]
    per_second = os.sysconf("SC_CLK_TCK")
    return (sum(ticks) - ticks[3] - ticks[4]) / per_second, sum(ticks) / per_second


class OtherLoad:
    """What programs other than our children took of all processors' time since this was made."""

    def __init__(self):
        self.begin = self.now()

    @staticmethod
    def now():
        times = os.times()
        return (*processor_seconds(pathlib.Path("/proc/stat").read_text(encoding="utf-8")),
                times.children_user + times.children_system)

    def read(self):
        """A fraction, 0-1. Children count once they have ended."""
        used, total, ours = (end - begin for begin, end in zip(self.begin, self.now()))
        return round(max(0.0, used - ours) / total, 3) if total > 0 else 0.0


def bass_version(binary):
    done = subprocess.run([binary, "--version"], capture_output=True, text=True, check=False)
    # the last change of what the program is made of: one of documents makes no other program
    commit = subprocess.run(["git", "log", "-1", "--format=%h", "--", "CMakeLists.txt", "cmake", "include", "src"],
                            capture_output=True, text=True, check=False, cwd=ROOT)
    return f"{done.stdout.strip().removeprefix('bass ')} ({commit.stdout.strip() or 'no commit'})"


def versions(bass_binary):
    found = {name: importlib.metadata.version(name) for name in ("openvino-genai", "llama-cpp-python")}
    found["bass"] = bass_version(bass_binary)
    return found
