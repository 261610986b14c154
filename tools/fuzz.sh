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

clang=$(command -v clang++ || compgen -c clang++- | sort -V | tail -n 1)
if [ -z "$clang" ]; then
  install_packages "${fuzz_packages[@]}" || exit 1
  clang=$(command -v clang++)
fi

build=build/fuzz
mkdir -p "$build"
cmake -S . -B "$build" -G Ninja -DCMAKE_CXX_COMPILER="$clang" -DCMAKE_BUILD_TYPE=RelWithDebInfo \
  -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -g1" -DBASS_FUZZ=ON -DBASS_SANITIZE=address,undefined \
  -DBASS_BUILD_TESTS=OFF >"$build/configure.log" 2>&1 || { cat "$build/configure.log"; exit 1; }
cmake --build "$build" --parallel "$(nproc)" --target "${targets[@]}" || exit 1

n_failed=0
for target in "${targets[@]}"; do
  kind=${target#fuzz_}
  found=$build/corpus/$kind
  mkdir -p "$found"
  echo "== $target, $n_seconds s"
  # 512 MB: far above what a hostile file may cost. Ten seconds: the clock runs on while other programs do.
  if "$build/$target" -max_total_time="$n_seconds" -timeout=10 -rss_limit_mb=512 -print_final_stats=1 -verbosity=0 \
    -artifact_prefix="$build/$target-" "$found" "tests/fuzz/corpus/$kind"; then
    echo "$target: nothing found"
  else
    echo "$target: FAILED; the input is $build/$target-*"
    n_failed=$((n_failed + 1))
  fi
done
[ "$n_failed" -eq 0 ]
