#!/usr/bin/env bash
# Servers under load, bass's and llama.cpp's in turn: what their users wait for. Writes a table and a plot.
#   bench/serving/run.sh PROMPTS.jsonl [--rates 0.5,1,2,4,6] [--seconds 40] [--rounds 3] -o OUT.json
# Sets the peers up first (bench/peers/setup.sh). --help lists all options.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
"$here/../peers/setup.sh" >&2
exec "$here/../../build/peers/venv/bin/python" "$here/under_load.py" "$@"
