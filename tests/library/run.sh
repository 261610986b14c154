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
grep -q '^== 0$' "$work/output.txt" || { echo "the example printed no text of choice 0"; exit 1; }
if "$work/build/example" "$work/missing.gguf" 2> "$work/error.txt"; then echo "a missing model was no error"; exit 1; fi
grep -q 'missing.gguf' "$work/error.txt" || { echo "the error does not name the file"; exit 1; }
grep -qE '^-[0-9.]+ ' <("$work/build/best_of" "$model" "def f" "$model") || { echo "best_of ranked nothing"; exit 1; }
# Without CMake, as docs/library.md has it.
export PKG_CONFIG_PATH
PKG_CONFIG_PATH=$(dirname "$(find "$work/prefix" -name bass.pc)")
# shellcheck disable=SC2046
g++ -std=c++20 "$here/example.cc" $(pkg-config --cflags --libs bass) -Wl,-rpath,"$(pkg-config --variable=libdir bass)" -o "$work/plain"
"$work/plain" "$model" > "$work/plain.txt"
cmp "$work/output.txt" "$work/plain.txt" || { echo "the two builds of the example print other texts"; exit 1; }
[ -f "$(pkg-config --variable=modelsdir bass)/smollm2-135m-draft.gguf" ] || { echo "modelsdir has no draft"; exit 1; }
# Names of other libraries stay inside.
library=$(find "$work/prefix" -name 'libbass.so' | head -1)
if nm -DC --defined-only "$library" | grep -E ' [A-Za-z] (nlohmann|fmt)::'; then echo "these should not be exported"; exit 1; fi
# The README shows this very example.
python3 - "$here/example.cc" "$here/../../README.md" <<'PY'
import sys
example, readme = (open(path, encoding="utf-8").read() for path in sys.argv[1:])
sys.exit(0 if example.strip() in readme else "README.md does not show tests/library/example.cc as it is")
PY
echo "the installed package works"
