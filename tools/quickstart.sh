#!/usr/bin/env bash
# From a fresh Debian 12 to the main job: eight samples for a coding question, with speculation and without.
# Everything is done once: a second run installs, builds and downloads nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. tools/deps.sh

if [ "$#" -gt 0 ]; then
  echo "usage: tools/quickstart.sh   (no options; it installs, builds, fetches the model and shows the main job)"
  [ "$1" = "-h" ] || [ "$1" = "--help" ] || exit 2
  exit 0
fi

cat <<'TEXT'
BASS quickstart. What this does:
  1. installs what is missing of: a C++ compiler, CMake, Ninja and the libraries of tools/deps.sh (Debian packages, apt)
  2. builds the release: build/release/bass
  3. fetches the default model, SmolLM2-135M-Instruct Q4_1 (94 MiB, Apache-2.0), into the cache folder
  4. runs eight samples for a coding question, with speculation (n-grams, and the draft model that comes with it) and
     with regular decoding

TEXT

install_packages "${build_packages[@]}"

echo
echo "Building build/release/bass ..."
if command -v ccache >/dev/null; then export CMAKE_CXX_COMPILER_LAUNCHER=ccache; fi
mkdir -p build
if ! { cmake --preset release && cmake --build --preset release --parallel "$(nproc)"; } >build/quickstart.log 2>&1; then
  tail -n 40 build/quickstart.log >&2
  echo "error: the build failed; the whole log is in build/quickstart.log" >&2
  exit 1
fi
bass=build/release/bass
"$bass" --version

echo
"$bass" pull smollm2

question='Write a Python function that returns the n-th Fibonacci number, and explain it.'
job=("$bass" generate -m smollm2 --chat -p "$question" -n 8 --max-tokens 200 --seed 1)
run_job() { # name, options...
  local name=$1
  shift
  echo
  echo "== $name: $bass generate -m smollm2 --chat -p \"$question\" -n 8 --max-tokens 200 --seed 1 $*"
  "${job[@]}" --save "build/quickstart_$name.json" "$@"
}
run_job speculative
run_job regular --drafter off

python3 - build/quickstart_speculative.json build/quickstart_regular.json <<'PYTHON'
import json
import sys

runs = [json.load(open(path)) for path in sys.argv[1:]]
print(f"\nthe speculative run drafted with n-grams and {runs[0]['draft'] or 'without a draft model: none was found'}")
rows = [("tokens/s", lambda run: f"{run['timing']['tokens_per_s']:.1f}"),
        ("ms a token, all sequences", lambda run: f"{run['timing']['ms_per_token']['all']:.2f}"),
        ("tokens", lambda run: str(run["usage"]["completion_tokens"])),
        ("acceptance", lambda run: "-" if run["speculation"]["acceptance_rate"] is None
         else f"{100 * run['speculation']['acceptance_rate']:.1f} %")]
print(f"\n{'':28}{'speculative':>12}{'regular':>12}")
for name, value in rows:
    print(f"{name:28}{value(runs[0]):>12}{value(runs[1]):>12}")
texts = [[choice["text"] for choice in run["prompts"][0]["choices"]] for run in runs]
print("the eight texts are " + ("the same, byte for byte" if texts[0] == texts[1] else "NOT the same"))
PYTHON
