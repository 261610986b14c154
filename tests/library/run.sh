#!/usr/bin/env bash
# Installs the build into a folder of its own, builds the README's example against the package there, and runs it.
# Usage: run.sh BUILD_DIR MODEL.gguf
set -euo pipefail
build=$1
model=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/prefix" > "$work/install.log" || { cat "$work/install.log"; exit 1; }
cmake -S "$here" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_BUILD_TYPE=Debug > "$work/configure.log" ||
  { cat "$work/configure.log"; exit 1; }
cmake --build "$work/build" > "$work/build.log" || { cat "$work/build.log"; exit 1; }
"$work/build/example" "$model" > "$work/output.txt"
grep -q '^0: ' "$work/output.txt" || { echo "the example printed no text of choice 0"; exit 1; }
if "$work/build/example" "$work/missing.gguf" 2> "$work/error.txt"; then echo "a missing model was no error"; exit 1; fi
grep -q 'missing.gguf' "$work/error.txt" || { echo "the error does not name the file"; exit 1; }
# The README shows this very example.
python3 - "$here/example.cc" "$here/../../README.md" <<'PY'
import sys
example, readme = (open(path, encoding="utf-8").read() for path in sys.argv[1:])
sys.exit(0 if example.strip() in readme else "README.md does not show tests/library/example.cc as it is")
PY
echo "the installed package works"
