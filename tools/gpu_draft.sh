#!/usr/bin/env bash
# Makes a draft on a GPU machine that reaches no network, in calls of a few minutes, from pieces that are carried there.
# Here, where BASS is built and the model was pulled:
#   tools/gpu_draft.sh pack DIR [MODEL]    program, libraries, Python packages and model in folders DIR/0, DIR/1, ... of
#                                          36 MiB each
# There (x86-64 Linux, Python 3 with PyTorch and NumPy), with a copy of this repository:
#   tools/gpu_draft.sh keep DIR/I          keeps a piece in ~/.cache/bass/gpu_draft; once for each, in any order
#   tools/gpu_draft.sh make OUT MINUTES [OPTIONS OF bass-draft make]
#                                          goes on with the draft for MINUTES and writes OUT/draft.gguf and OUT/log.jsonl;
#                                          can be called again as long as the machine is there
# The draft begins as models/*-draft.gguf of the repository if it is for this model, with prompts that it has not seen.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
kept=${XDG_CACHE_HOME:-$HOME/.cache}/bass/gpu_draft

fail() {
  echo "error: $*" >&2
  exit 1
}

usage() {
  sed -n '2,12s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
  exit "$1"
}

# Everything that the program loads and another distribution may lack; the C and C++ runtime are taken from there.
copy_libraries() { # program, folder
  ldd "$1" | awk '$3 ~ /^\// {print $3}' | grep -vE '/(libc|libm|libstdc\+\+|libgcc_s|libresolv|ld-linux[^/]*)\.so' |
    xargs -r cp -L -t "$2"
}

pack() { # folder, model
  local dir=$1 model=$2 bass=${BASS_BINARY:-build/release/bass} path piece
  [ -x "$bass" ] || fail "$bass: not there; run tools/quickstart.sh, or set BASS_BINARY"
  [ ! -e "$dir" ] || fail "$dir exists; give the name of a new folder"
  path=$("$bass" info -m "$model" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["path"])')
  mkdir -p "$dir/all/lib" "$dir/all/wheels"
  cp "$bass" "$dir/all/bass"
  cp "$path" "$dir/all/model.gguf"
  copy_libraries "$bass" "$dir/all/lib"
  python3 -m pip download -q --no-deps -d "$dir/all/wheels" gguf tqdm pyyaml jinja2 markupsafe
  echo "$model" >"$dir/all/name"
  date +%j%H%M >"$dir/all/seed" # prompts that no draft before this one has seen
  tar -C "$dir/all" -czf "$dir/all.tar.gz" .
  sha256sum <"$dir/all.tar.gz" >"$dir/sha256"
  split -b 36M -d -a 1 "$dir/all.tar.gz" "$dir/piece."
  for piece in "$dir"/piece.*; do
    mkdir "$dir/${piece##*.}"
    cp "$dir/sha256" "$dir/${piece##*.}/"
    mv "$piece" "$dir/${piece##*.}/"
  done
  rm -r "$dir/all" "$dir/all.tar.gz" "$dir/sha256"
  du -sh "$dir"/*
}

keep() { # folder of a piece
  local wheel
  [ -f "$1/sha256" ] || fail "$1: holds no piece; make them with: tools/gpu_draft.sh pack"
  mkdir -p "$kept"
  cp "$1"/* "$kept"/
  [ "$(cat "$kept"/piece.* | sha256sum)" = "$(cat "$kept/sha256")" ] || return 0
  cat "$kept"/piece.* | tar -C "$kept" -xz
  rm "$kept"/piece.*
  # Not by pip: parts in C may be for another Python, and all of these do without them.
  for wheel in "$kept"/wheels/*.whl; do python3 -m zipfile -e "$wheel" "$kept/site"; done
  echo "$kept: complete"
}

# Minutes add up over calls: the tool counts what earlier ones used.
make_draft() { # output folder, minutes, options...
  local out=$1 minutes=$2 used=0 init=() known
  shift 2
  [ -d "$kept/site" ] || fail "$kept: pieces are missing; call tools/gpu_draft.sh keep for each"
  [ ! -f "$kept/minutes" ] || used=$(cat "$kept/minutes")
  known=$(compgen -G "models/$(cat "$kept/name")*-draft.gguf" || true)
  [ -z "$known" ] || init=(--init "$known")
  mkdir -p "$out"
  echo $((used + minutes)) >"$kept/minutes"
  PYTHONPATH="python:$kept/site" LD_LIBRARY_PATH="$kept/lib" python3 -m bass_draft make -m "$kept/model.gguf" \
    --bass "$kept/bass" --work "$kept/draft.work" -o "$out/draft.gguf" --device auto --seed "$(cat "$kept/seed")" \
    "${init[@]}" --hours "$(python3 -c "print(($used + $minutes) / 60)")" "$@"
  cp "$kept/draft.work/train/log.jsonl" "$out/log.jsonl"
  ls -l "$out"
}

case "${1:-}" in
  pack) [ "$#" -ge 2 ] || usage 2; pack "$2" "${3:-smollm2}" ;;
  keep) [ "$#" -eq 2 ] || usage 2; keep "$2" ;;
  make) [ "$#" -ge 3 ] || usage 2; make_draft "${@:2}" ;;
  -h | --help) usage 0 ;;
  *) usage 2 ;;
esac
