#!/usr/bin/env bash
# Sets up all that the tests need, then runs them: every test in the dev build, the unit tests under
# AddressSanitizer and UndefinedBehaviorSanitizer, the tests of the thread team, the engine and the server under ThreadSanitizer,
# every fuzz target for a minute (tools/fuzz.sh), and the tests of python/ with Debian's PyTorch. Where nvcc is installed,
# the GPU backend is compiled and its gates are looked at; nothing is installed for that.
#   tools/test.sh [unit|cuda|draft|asan|tsan|fuzz ...]    only these parts
# BASS_TEST_MINUTES=M leaves out sanitizers and fuzzing where they would hardly end within M minutes, and says so:
# continuous integration ends what takes too long, whatever has passed by then, and machines differ by a factor of three.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
. tools/deps.sh

parts=("$@")
[ "${#parts[@]}" -gt 0 ] || parts=(unit cuda draft asan tsan fuzz)
for part in "${parts[@]}"; do
  case "$part" in
    unit | cuda | draft | asan | tsan | fuzz) ;;
    *) echo "usage: tools/test.sh [unit|cuda|draft|asan|tsan|fuzz ...]" >&2; exit 2 ;;
  esac
done

case "${BASS_TEST_MINUTES:-}" in
  "") ;;
  0* | *[!0-9]*)
    echo "error: BASS_TEST_MINUTES=$BASS_TEST_MINUTES: it takes a whole number of minutes from 1 on" >&2
    exit 2
    ;;
esac

n_jobs=$(nproc)
failures=""
skips=""
ctest_prefix=()
export CTEST_OUTPUT_ON_FAILURE=1

# Whether enough of BASS_TEST_MINUTES is left for a part to begin; of the tests themselves none is left out.
has_time() { # part
  local needed_percent
  [ -n "${BASS_TEST_MINUTES:-}" ] || return 0
  case "$1" in
    asan) needed_percent=45 ;;
    tsan) needed_percent=20 ;;
    fuzz) needed_percent=15 ;;
    *) return 0 ;;
  esac
  [ "$SECONDS" -le $((BASS_TEST_MINUTES * 60 * (100 - needed_percent) / 100)) ]
}

say() { printf '\n== %s\n' "$*"; }

# A virtual environment of what a list names; made again when the list changes.
make_venv() { # folder, list, python, options of venv...
  local venv=$1 list=$2 python=$3 wanted
  shift 3
  wanted=$(sha256sum "$list" | cut -d' ' -f1)
  if [ -f "$venv/requirements.sha256" ] && [ "$(cat "$venv/requirements.sha256")" = "$wanted" ]; then
    echo "Python packages of $list: all are installed."
    return 0
  fi
  echo "Installing these Python packages into $venv: $(tr '\n' ' ' <"$list")"
  rm -rf "$venv"
  "$python" -m venv "$@" "$venv" &&
    "$venv/bin/python" -m pip install --disable-pip-version-check -q -r "$list" &&
    echo "$wanted" >"$venv/requirements.sha256"
}

build() { # preset, options of cmake --build...
  local preset=$1 options=()
  shift
  # What is built from nothing takes half the time where several files are compiled as one. A folder that somebody works
  # in stays as it is: there one file that has changed should be compiled alone.
  [ -f "build/$preset/CMakeCache.txt" ] || options=(-DCMAKE_UNITY_BUILD=ON)
  cmake --preset "$preset" "${options[@]}" >"build/configure_$preset.log" 2>&1 || { cat "build/configure_$preset.log"; return 1; }
  cmake --build --preset "$preset" --parallel "$n_jobs" "$@"
}

# The default model, unless BASS_TEST_MODEL names a file.
get_model() {
  if [ -n "${BASS_TEST_MODEL:-}" ]; then
    echo "Model: $BASS_TEST_MODEL"
    [ -f "$BASS_TEST_MODEL" ] || { echo "error: BASS_TEST_MODEL: there is no such file" >&2; return 1; }
    return 0
  fi
  build/dev/bass pull smollm2 || return 1
  export BASS_TEST_MODEL="${XDG_CACHE_HOME:-$HOME/.cache}/bass/SmolLM2-135M-Instruct.Q4_1.gguf"
}

# Of what tests were skipped, and a line for each reason.
note_skips() { # name, lines
  [ -z "$2" ] || skips+="Of $1:"$'\n'$2$'\n'
}

# A part's last words name the tests that failed and what they said, however long its log is.
run_ctest() { # preset, ctest's selection...
  local preset=$1 report=$PWD/build/$1/tests.xml rc=0
  shift
  rm -f "$report"
  "${ctest_prefix[@]}" ctest --test-dir "build/$preset" --no-tests=error --parallel "$n_jobs" --test-output-size-passed 65536 \
    --output-junit "$report" "$@" || rc=$?
  [ "$rc" -eq 0 ] || failures+=$(python3 tools/test_report.py failed "$report")$'\n'
  note_skips "$preset" "$(python3 tools/test_report.py skipped "$report")"
  return "$rc"
}

part_unit() { run_ctest dev; }

# The kernels are compiled for sm_90a; the tests of the GPU backend run emulated in the dev build, and here again on a GPU
# if there is one.
part_cuda() {
  if ! command -v nvcc >/dev/null && [ ! -x /usr/local/cuda/bin/nvcc ]; then
    skipped=": no nvcc on this machine, the GPU kernels were not compiled"
    return 0
  fi
  build cuda --target bass_kernels bass_speculation || return 1
  python3 tools/gpu_gate.py build/cuda || { failures+="gpu_gate.py"$'\n'; return 1; }
  nvidia-smi -L >/dev/null 2>&1 || { skipped=": compiled; not run, there is no GPU"; return 0; }
  build cuda --target bass bass_kernels_test bass_gpu_test && tools/gpu_check.sh correctness
}

# Debian's PyTorch goes with Debian's Python and numpy.
part_draft() {
  local log=$PWD/build/draft_tests.log rc=0
  install_packages "${draft_packages[@]}" || return 1
  make_venv build/venv_draft python/tests/requirements.txt /usr/bin/python3 --system-site-packages || return 1
  BASS_BINARY=$PWD/build/dev/bass PYTHONDONTWRITEBYTECODE=1 build/venv_draft/bin/python -m pytest -q -rfEs \
    -p no:cacheprovider python/tests | tee "$log" || rc=$?
  [ "$rc" -eq 0 ] || failures+=$(grep -E '^(FAILED|ERROR)' "$log")$'\n'
  note_skips python/tests "$(grep -E '^SKIPPED' "$log" | sed 's/^/  /')"
  return "$rc"
}

# Simulations and statistics that take minutes there run code that the other tests run, too.
part_asan() {
  build asan || return 1
  ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1 run_ctest asan -LE 'python|integration|gpu' -E '^(Adversity|Probing|Disturbance|Goodput.IsNever|Policies/Policy)|NOT_BUILT$'
}

part_tsan() {
  build tsan --target bass_base_test bass_engine_test bass_server_test || return 1
  # Address space randomisation with more bits than ThreadSanitizer's shadow memory can cover ends it at start; where
  # a container forbids switching it off, it is tried as it is.
  ctest_prefix=(setarch "$(uname -m)" -R)
  "${ctest_prefix[@]}" true 2>/dev/null || ctest_prefix=()
  # Thousands of answers under a grammar, one after the other, take two minutes of what the other grammars' tests do.
  TSAN_OPTIONS=halt_on_error=1 run_ctest tsan -L "^(base|engine|server)\$" \
    -E '^Constraint\.(AGrammarDoesNotWearOut|DraftedAnswersHaveTheDistribution)'
}

part_fuzz() { tools/fuzz.sh; }

say "Setting up"
install_packages "${build_packages[@]}" "${test_packages[@]}" || exit 1
# Builds of equal flags share what they compile: the preset cuda most of dev.
if command -v ccache >/dev/null; then export CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_NOHASHDIR=1; fi
mkdir -p build
make_venv build/venv tests/requirements.txt python3 || { echo "error: the Python packages could not be installed" >&2; exit 1; }
build dev || { echo "error: the dev build failed" >&2; exit 1; }
get_model || exit 1

summary=""
n_failed=0
n_left_out=0
for part in "${parts[@]}"; do
  if ! has_time "$part"; then
    summary+="  $part: LEFT OUT after $((SECONDS / 60)) of $BASS_TEST_MINUTES minutes (tools/test.sh $part runs it)"$'\n'
    n_left_out=$((n_left_out + 1))
    continue
  fi
  say "Part $part"
  start_s=$SECONDS
  skipped=""
  if "part_$part"; then
    summary+="  $part: passed ($((SECONDS - start_s)) s)$skipped"$'\n'
  else
    summary+="  $part: FAILED ($((SECONDS - start_s)) s)"$'\n'
    n_failed=$((n_failed + 1))
  fi
done

say "Summary"
printf '%s%s' "$summary" "$skips"
if [ "$n_failed" -gt 0 ]; then
  printf '%s' "$failures"
  echo "$n_failed of ${#parts[@]} parts failed."
  exit 1
fi
if [ "$n_left_out" -gt 0 ]; then
  echo "$n_left_out of ${#parts[@]} parts were left out, the others passed."
else
  echo "All parts passed."
fi
