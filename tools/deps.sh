#!/usr/bin/env bash
# The Debian packages that BASS needs, in one place, and how the scripts install what is missing.
# Sourced by the other scripts. Run by itself it prints the names: all, or those of the lists named (build, python,
# test, draft, check, fuzz).

# shellcheck disable=SC2034  # used by the scripts that source this file
build_packages=(g++ cmake ninja-build pkg-config ccache libfmt-dev libcli11-dev nlohmann-json3-dev
                libboost-dev libcurl4-openssl-dev libedit-dev libnuma-dev libpcre2-dev libssl-dev libutf8proc-dev libzip-dev python3
                python3-pip ca-certificates)  # what bass pull trusts a hub by
# What `pip install .` needs beside them.
# shellcheck disable=SC2034
python_packages=(python3-dev python3-venv)
# shellcheck disable=SC2034
test_packages=(libgtest-dev libgmock-dev libbenchmark-dev "${python_packages[@]}" pybind11-dev qemu-user dpkg-dev)
# PyTorch of Debian: the one of PyPI brings gigabytes of CUDA with it and cannot be loaded without.
# shellcheck disable=SC2034
draft_packages=(python3-torch libopenblas0-pthread)
# shellcheck disable=SC2034
check_packages=(clang-format clang-tidy shellcheck)
# shellcheck disable=SC2034
fuzz_packages=(clang libclang-rt-dev)

# Those of the named packages that are not installed, one a line.
missing_packages() {
  local package
  for package in "$@"; do
    dpkg-query -W -f='${Status}\n' "$package" 2>/dev/null | grep -q 'ok installed' || echo "$package"
  done
}

# Says what is missing of the named packages and installs it; does nothing, and needs no network, when all are there.
install_packages() {
  local missing run=()
  if ! command -v apt-get dpkg-query >/dev/null; then
    echo "This is not a Debian system. Needed here (under Debian's names): $*" >&2
    return 0
  fi
  mapfile -t missing < <(missing_packages "$@")
  if [ "${#missing[@]}" -eq 0 ]; then
    echo "Debian packages: all are installed."
    return 0
  fi
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "error: these Debian packages are missing, and only root can install them: ${missing[*]}" >&2
      return 1
    fi
    run=(sudo)
  fi
  echo "Installing these Debian packages with apt: ${missing[*]}"
  "${run[@]}" apt-get update -q
  "${run[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  case "$*" in "" | all) set -- build test draft check fuzz ;; esac
  for list in "$@"; do
    case "$list" in
      build | python | test | draft | check | fuzz) ;;
      *) echo "usage: tools/deps.sh [all | build|python|test|draft|check|fuzz ...]" >&2; exit 2 ;;
    esac
  done
  for list in "$@"; do
    declare -n packages="${list}_packages"
    printf '%s\n' "${packages[@]}"
  done
fi
