#!/usr/bin/env bash
# Makes build/peers: a virtual environment with OpenVINO GenAI, llama.cpp and matplotlib, and llama.cpp's own benchmark and
# server.
# A second run finds all in place and needs no network. BASS_BUILD_JOBS: compilers at once [all processors].
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

root=$PWD/build/peers
programs=$root/llama.cpp/bin
wanted=$(cat bench/peers/requirements.txt bench/peers/setup.sh | sha256sum | cut -d' ' -f1)
if [ "$(cat "$root/stamp" 2>/dev/null)" = "$wanted" ] && [ -x "$programs/llama-batched-bench" ] && [ -x "$programs/llama-server" ]; then
  echo "Peers: all are installed in build/peers."
  exit 0
fi

fail() { # what failed, its log
  tail -n 20 "$2" >&2
  echo "error: $1; the whole output is in $2" >&2
  exit 1
}

for program in python3 cmake ninja g++; do
  if ! command -v "$program" >/dev/null; then
    echo "error: $program is missing; tools/deps.sh lists the packages" >&2
    exit 1
  fi
done
mkdir -p "$root"
rm -f "$root/stamp"
echo "Installing into build/peers: $(tr '\n' ' ' <bench/peers/requirements.txt)"
echo "llama.cpp is compiled for this processor: that takes some minutes."
rm -rf "$root/venv" "$root/llama.cpp"

pip() { "$root/venv/bin/python" -m pip --disable-pip-version-check install "$@" >>"$root/setup.log" 2>&1; }
python3 -m venv "$root/venv" >"$root/setup.log" 2>&1 ||
  fail "python3 cannot make a virtual environment (Debian: python3-venv)" "$root/setup.log"
mapfile -t wheels < <(grep -v '^llama-cpp-python' bench/peers/requirements.txt)
pip "${wheels[@]}" || fail "${wheels[*]} could not be installed (the first time needs PyPI)" "$root/setup.log"

# One install compiles the library and, from the same sources and with the same flags, the two programs, which stay in the
# build folder. ggml's default is -march=native. The target mtmd is there because the install wants its file.
llama=$(grep '^llama-cpp-python' bench/peers/requirements.txt)
CMAKE_BUILD_PARALLEL_LEVEL=${BASS_BUILD_JOBS:-$(nproc)} \
CMAKE_ARGS="-DLLAVA_BUILD=OFF -DLLAMA_BUILD_TOOLS=ON -DLLAMA_TOOLS_INSTALL=OFF -DLLAMA_BUILD_SERVER=ON -DLLAMA_USE_PREBUILT_UI=OFF" \
  pip --verbose --no-binary llama-cpp-python --no-cache-dir "$llama" \
  --config-settings "build-dir=$root/llama.cpp" --config-settings "build.targets=llama;llama-batched-bench;llama-server;mtmd" ||
  fail "$llama could not be installed" "$root/setup.log"
for program in llama-batched-bench llama-server; do
  [ -x "$programs/$program" ] || fail "llama.cpp was installed, but $program was not built" "$root/setup.log"
done
echo "$wanted" >"$root/stamp"
echo "Peers: installed."
