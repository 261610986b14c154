"""Whether the files of each folder can be compiled as one: FOLDER has the compile_commands.json of a build that does so.

Nothing is written. In a build that compiles eight at a time (CMAKE_UNITY_BUILD) two of them may meet only once a file
more is there; so all that may meet are looked at.
"""
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor


def errors(entry):
    command = re.sub(r" -o \S+ -c ", " -O0 -w -fsyntax-only ", entry["command"])
    done = subprocess.run(shlex.split(command), cwd=entry["directory"], capture_output=True, text=True, check=False)
    return done.stderr if done.returncode != 0 else ""


def main():
    entries = json.loads((pathlib.Path(sys.argv[1]) / "compile_commands.json").read_text())
    together = [entry for entry in entries if "/Unity/" in entry["file"]]
    if not together:
        sys.exit(f"error: {sys.argv[1]}: compiles nothing as one (CMAKE_UNITY_BUILD)")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = [text for text in pool.map(errors, together) if text]
    if found:
        print(*found, "Two files of a folder give a name to different things: rename one, or let both have it from one place.", sep="\n")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
