"""Runs `bass`, for the scripts that measure with it."""

import json
import pathlib
import subprocess
import sys


def run_bass(bass, arguments, lines=()):
    """What `bass` prints; where it cannot be started or fails, a line says so and the script ends. lines: objects for its standard
    input, a line each."""
    script = pathlib.Path(sys.argv[0]).name
    text = "".join(json.dumps(line) + "\n" for line in lines)
    try:
        done = subprocess.run([bass, *map(str, arguments)], input=text, capture_output=True, text=True, check=False)
    except OSError as error:
        sys.exit(f"{script}: --bass {bass}: {error.strerror}")
    if done.returncode != 0:
        sys.exit(f"{script}: bass {arguments[0]}: {done.stderr.strip() or done.returncode}")
    return done.stdout
