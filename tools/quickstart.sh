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
run_job() { # number, speculative or regular
  local file=build/quickstart_$2_$1.json options=()
  if [ "$2" = regular ]; then options=(--drafter off); fi
  if [ "$1" -eq 1 ]; then
    echo
    echo "== $2: $bass generate -m smollm2 --chat -p \"$question\" -n 8 --max-tokens 200 --seed 1 ${options[*]}"
    "${job[@]}" --save "$file" "${options[@]}"
  else
    "${job[@]}" --save "$file" "${options[@]}" >/dev/null
  fi
}
# A run takes a second, and others may use the machine meanwhile: speeds are medians of five runs, in turns.
n_runs=5
for number in $(seq "$n_runs"); do
  if [ $((number % 2)) -eq 1 ]; then order=(speculative regular); else order=(regular speculative); fi
  for name in "${order[@]}"; do run_job "$number" "$name"; done
done

python3 - build/quickstart "$n_runs" <<'PYTHON'
import json
import statistics
import sys

runs = {name: [json.load(open(f"{sys.argv[1]}_{name}_{number}.json")) for number in range(1, int(sys.argv[2]) + 1)]
        for name in ("speculative", "regular")}
draft = runs["speculative"][0]["draft"] or "without a draft model: none was found"
print(f"\nthe speculative runs drafted with n-grams and {draft}")


def median(of_name, value):
    return statistics.median(value(run) for run in of_name)


def acceptance(of_name):
    rate = of_name[0]["speculation"]["acceptance_rate"]
    return "-" if rate is None else f"{100 * rate:.1f} %"


rows = [(f"tokens/s, median of {sys.argv[2]}", lambda of_name: f"{median(of_name, lambda run: run['timing']['tokens_per_s']):.1f}"),
        ("ms a token, all sequences", lambda of_name: f"{median(of_name, lambda run: run['timing']['ms_per_token']['all']):.2f}"),
        ("tokens", lambda of_name: str(of_name[0]["usage"]["completion_tokens"])),
        ("acceptance", acceptance)]
print(f"\n{'':28}{'speculative':>12}{'regular':>12}")
for name, value in rows:
    print(f"{name:28}{value(runs['speculative']):>12}{value(runs['regular']):>12}")
texts = {tuple(choice["text"] for choice in run["prompts"][0]["choices"]) for of_name in runs.values() for run in of_name}
print("the eight texts are " + ("the same in all runs, byte for byte" if len(texts) == 1 else "NOT the same in all runs"))
PYTHON
