#!/usr/bin/env bash
# Measures bass, OpenVINO GenAI and llama.cpp in turn on one file, and writes a table and a plot.
#   bench/peers/run.sh [--batch 1,8,32] [--rounds 5] [--prompt-tokens 64] [--generate-tokens 64] -o OUT.json
# Sets the peers up first (setup.sh). --help lists all options.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
"$here/setup.sh" >&2
exec "$here/../../build/peers/venv/bin/python" "$here/compare.py" "$@"
