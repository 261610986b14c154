#!/usr/bin/env bash
# Builds the fuzz targets (tests/fuzz, clang and libFuzzer, with AddressSanitizer and UndefinedBehaviorSanitizer) and
# runs each, starting from its committed corpus. What was found new lies in build/fuzz/corpus and serves the next run;
# an input that ends a target is kept as build/fuzz/TARGET-crash-*.
#   tools/fuzz.sh [SECONDS [TARGET ...]]    so long each; 60 seconds and all targets by default
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
. tools/deps.sh

n_seconds=${1:-60}
[[ "$n_seconds" =~ ^[0-9]+$ ]] || { echo "usage: tools/fuzz.sh [SECONDS [TARGET ...]]" >&2; exit 2; }
targets=("${@:2}")
if [ "${#targets[@]}" -eq 0 ]; then
  for file in tests/fuzz/fuzz_*.cc; do targets+=("$(basename "$file" .cc)"); done
fi

install_packages "${fuzz_packages[@]}" || exit 1
clang=$(command -v clang++ || compgen -c clang++- | sort -V | tail -n 1)

build=build/fuzz
mkdir -p "$build"
cmake -S . -B "$build" -G Ninja -DCMAKE_CXX_COMPILER="$clang" -DCMAKE_BUILD_TYPE=RelWithDebInfo \
  -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -g1" -DCMAKE_UNITY_BUILD=ON -DBASS_FUZZ=ON -DBASS_SANITIZE=address,undefined \
  -DBASS_BUILD_TESTS=OFF >"$build/configure.log" 2>&1 || { cat "$build/configure.log"; exit 1; }
cmake --build "$build" --parallel "$(nproc)" --target "${targets[@]}" || exit 1

# 512 MB: far above what a hostile file may cost. Thirty seconds: the clock runs on while other programs do. Continuous
# integration looks at the same inputs each time: what it finds is of the change that it tests.
run_target() { # fuzz_KIND
  local kind=${1#fuzz_} log=$build/$1.log
  mkdir -p "$build/corpus/$kind"
  if "$build/$1" -max_total_time="$n_seconds" -timeout=30 -rss_limit_mb=512 -print_final_stats=1 -verbosity=0 ${CI:+-seed=1} \
    -artifact_prefix="$build/$1-" "$build/corpus/$kind" "tests/fuzz/corpus/$kind" >"$log" 2>&1; then
    echo "$1: nothing found in $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") runs"
  else
    tail -n 40 "$log"
    echo "$1: FAILED; the input is $build/$1-*"
    return 1
  fi
}

export -f run_target
export build n_seconds
echo "${#targets[@]} targets, $n_seconds s each, $(nproc) at a time"
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I '{}' bash -c 'run_target {}'
