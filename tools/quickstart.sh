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
  4. answers a coding question, eight times at once and once, with speculation (n-grams, and the draft model that comes
     with it) and with regular decoding

TEXT

install_packages "${build_packages[@]}"

echo
echo "Building build/release/bass ... (3 to 10 minutes on two cores; build/quickstart.log says how far it is)"
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
# Into a file each; what the first run of eight samples says is shown.
run_job() { # number of the run, samples, speculative or regular
  local file=build/quickstart_$3_$2_$1.json log=build/quickstart_run.log options=()
  if [ "$3" = regular ]; then options=(--drafter off); fi
  local job=("$bass" generate -m smollm2 --chat -p "$question" -n "$2" --max-tokens 200 --seed 1 "${options[@]}")
  if [ "$1" -eq 1 ] && [ "$2" -eq 8 ]; then
    echo
    echo "== $3: $bass generate -m smollm2 --chat -p \"$question\" -n 8 --max-tokens 200 --seed 1 ${options[*]}"
    "${job[@]}" --save "$file"
  elif ! "${job[@]}" --save "$file" >/dev/null 2>"$log"; then
    cat "$log" >&2
    return 1
  fi
}
# A run takes a second, and others may use the machine meanwhile: speeds are medians of five runs, in turns.
n_runs=5
for number in $(seq "$n_runs"); do
  if [ $((number % 2)) -eq 1 ]; then order=(speculative regular); else order=(regular speculative); fi
  if [ "$number" -eq 2 ]; then echo && echo "Four more runs of each, and five with a single answer ..."; fi
  for name in "${order[@]}"; do
    run_job "$number" 8 "$name"
    run_job "$number" 1 "$name"
  done
done

python3 - build/quickstart "$n_runs" <<'PYTHON'
import json
import statistics
import sys

NAMES, SAMPLES = ("speculative", "regular"), (8, 1)
runs = {(n, name): [json.load(open(f"{sys.argv[1]}_{name}_{n}_{number}.json")) for number in range(1, int(sys.argv[2]) + 1)]
        for n in SAMPLES for name in NAMES}
draft = runs[8, "speculative"][0]["draft"] or "without a draft model: none was found"
print(f"\nthe speculative runs drafted with n-grams and {draft}")


def median(value, form):
    return lambda of_name: form.format(statistics.median(map(value, of_name)))


def accepted(of_name):
    rates = [run["speculation"]["acceptance_rate"] for run in of_name if run["speculation"]["drafted"]]
    return f"{100 * statistics.median(rates):.0f} %" if rates else "-"


rows = [("tokens/s", median(lambda run: run["timing"]["tokens_per_s"], "{:.0f}")),
        ("ms a token of a sequence", median(lambda run: run["timing"]["ms_per_token"]["all"], "{:.2f}")),
        ("tokens", median(lambda run: run["usage"]["completion_tokens"], "{:.0f}")),
        ("drafted tokens", median(lambda run: run["speculation"]["drafted"], "{:.0f}")),
        ("of these accepted", accepted)]
print(f"\n{f'medians of {sys.argv[2]} runs':26}{'eight answers':>24}{'one answer':>27}")
print(f"{'':26}" + "".join(f"{name:>12}" for name in NAMES) + " " * 3 + "".join(f"{name:>12}" for name in NAMES))
for name, value in rows:
    cells = [value(runs[n, of]) for n in SAMPLES for of in NAMES]
    print(f"{name:26}{cells[0]:>12}{cells[1]:>12}   {cells[2]:>12}{cells[3]:>12}")
for n in SAMPLES:
    texts = {tuple(choice["text"] for choice in run["prompts"][0]["choices"]) for name in NAMES for run in runs[n, name]}
    what = "eight texts are" if n == 8 else "single text is"
    print(f"the {what} " + ("the same in all runs, byte for byte" if len(texts) == 1 else "NOT the same in all runs"))
print("The more sequences run, the less a processor has left for checking drafts: the default policy drafts where that pays on this\n"
      "machine, which its first run finds out. What it did, and why: bass generate ... --explain-speculation.")
PYTHON
