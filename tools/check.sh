#!/usr/bin/env bash
# Looks at the sources without running them: format, the order of includes, shell scripts, whether
# the files of a folder can be compiled as one, clang-tidy.
#   tools/check.sh [format|includes|shell|together|tidy ...]    only these
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
. tools/deps.sh

parts=("$@")
[ "${#parts[@]}" -gt 0 ] || parts=(format includes shell together tidy)
for part in "${parts[@]}"; do
  case "$part" in
    format | includes | shell | together | tidy) ;;
    *) echo "usage: tools/check.sh [format|includes|shell|together|tidy ...]" >&2; exit 2 ;;
  esac
done

# Tracked files, and new ones that git would track.
sources() { git ls-files --cached --others --exclude-standard -- "$@"; }

check_format() { sources '*.cc' '*.h' | xargs clang-format --dry-run -Werror; }

check_includes() { python3 tests/check_includes.py && python3 tests/check_includes.py --negative-control; }

check_shell() { sources '*.sh' '.ci/run' | xargs shellcheck -x; }

check_together() {
  cmake --preset dev -B build/together -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=0 >/dev/null || return 1
  python3 tools/check_together.py build/together
}

check_tidy() {
  cmake --preset dev -B build/tidy -DCMAKE_UNITY_BUILD=OFF >/dev/null || return 1
  # The instruction sets' own files are compiled with flags that only the project's compiler need know, and Debian's
  # clang-tidy does not know the coroutines of C++20.
  sources 'src/*.cc' | grep -vE '^src/(kernels/cpu/|server/(http_|running_call))' |
    xargs -P "$(nproc)" -n 1 clang-tidy -p build/tidy --quiet --warnings-as-errors='*' 2>&1 |
    grep -v 'warnings\? generated\.$'
  return "${PIPESTATUS[2]}"
}

install_packages "${build_packages[@]}" "${test_packages[@]}" "${check_packages[@]}" || exit 1
n_failed=0
for part in "${parts[@]}"; do
  if "check_$part"; then
    echo "$part: ok"
  else
    echo "$part: FAILED"
    n_failed=$((n_failed + 1))
  fi
done
[ "$n_failed" -eq 0 ]
