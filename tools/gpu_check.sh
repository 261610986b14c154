#!/usr/bin/env bash
# Proves the GPU backend on a machine with an NVIDIA GPU, and measures it.
#   tools/gpu_check.sh [STAGE ...]    stages: correctness, paper, timing, attention, drafts, sanitizer; all, in this
#                                     order, unless some are named
#   tools/gpu_check.sh pack FILE      puts the programs that the stages need and their libraries into FILE (tar.xz), for a
#                                     machine that has a GPU but not what BASS is built with; there: BASS_GPU_PACK=FILE
# Programs come from BASS_GPU_PACK (a pack, or a folder with one's contents), or are built here (preset "cuda").
# BASS_TEST_MODEL names the default model; without it the tests that need it are left out, and said to be. After each
# stage results.json, summary.txt and results.tar.gz, with all logs, are in $OUT, or in ./gpu_results. Each stage takes a
# few minutes, paper of 8 sequences too (PAPER_BATCHES=1,2,4,8,16,32 names others: a quarter of an hour); one that fails
# does not stop the next one. A pack runs where the C library is no older than here; cuBLASLt (540 MB) does not go along.
set -uo pipefail
# Paths that were given are of the folder that this was called in.
for name in BASS_GPU_PACK BASS_TEST_MODEL OUT; do
  if [ -n "${!name:-}" ]; then export "$name=$(realpath -ms "${!name}")"; fi
done
if [ "${1:-}" = pack ] && [ $# -eq 2 ]; then set -- pack "$(realpath -m "$2")"; fi
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
programs=(bass bass_kernels_test bass_gpu_test)
results_dir=${OUT:-$PWD/gpu_results}
out=""  # of logs

fail() {
  echo "error: $*" >&2
  exit 1
}

build() { # where the tests' data will be
  local architectures # a build for another GPU stays one: the preset alone would make it Hopper's
  architectures=$(sed -n 's/^CMAKE_CUDA_ARCHITECTURES:[A-Z]*=//p' build/cuda/CMakeCache.txt 2>/dev/null)
  cmake --preset cuda "-DCMAKE_CUDA_ARCHITECTURES=${architectures:-90a}" -DBASS_TEST_DATA="${1:-$PWD/tests/data}" >build/configure_cuda.log 2>&1 || { cat build/configure_cuda.log; return 1; }
  cmake --build --preset cuda --parallel "$(nproc)" --target "${programs[@]}"
}

pack() { # file
  local folder program library
  folder=$(mktemp -d)
  mkdir -p "$folder/lib" build
  build tests/data || fail "the programs could not be built"
  for program in "${programs[@]}"; do
    strip -o "$folder/$program" "build/cuda/$program" || fail "there is no build/cuda/$program"
    # The C library belongs to the machine; all others go along.
    ldd "$folder/$program" | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | grep -Ev '/lib(c|m|dl|rt|pthread|resolv|nsl|util|anl|mvec|nss_[a-z]+)\.so' |
      while read -r library; do cp -uL "$library" "$folder/lib/"; done
  done
  tar -C "$folder" -I 'xz -T0 -3' -cf "$1" . || fail "$1 could not be written"
  rm -rf "$folder"
  du -sh "$1"
}

unpack() {
  [ -f "${BASS_GPU_PACK:-}" ] || return 0
  unpacked=$(mktemp -d)
  tar -C "$unpacked" -xf "$BASS_GPU_PACK" || fail "$BASS_GPU_PACK: not a pack of tools/gpu_check.sh"
  BASS_GPU_PACK=$unpacked
}
unpacked=""

# A program of the pack, with its own libraries, or of the build.
run_program() { # program, arguments...
  local program=$1
  shift
  if [ -n "${BASS_GPU_PACK:-}" ]; then
    LD_LIBRARY_PATH="$BASS_GPU_PACK/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "${limit[@]}" "${wrapper[@]}" \
      "$BASS_GPU_PACK/$program" "$@"
  else
    "${limit[@]}" "${wrapper[@]}" "build/cuda/$program" "$@"
  fi
}
# No program may keep the machine for good.
wrapper=() limit=(timeout -k 10 300)

# Runs a test program in shards beside each other, as an error of a GPU is the end of the process that met it; adds their
# reports and one log to the results.
run_tests() { # name of the reports, seconds, program, gtest filter, [shards]
  local name=$1 limit_s=$2 program=$3 filter=$4 n_shards=${5:-1} rc=0 shard
  local -a runs=()
  for ((shard = 0; shard < n_shards; ++shard)); do
    run_shard "$name" "$limit_s" "$program" "$filter" "$shard" "$n_shards" &
    runs+=($!)
  done
  for shard in "${!runs[@]}"; do
    wait "${runs[shard]}" || { rc=1; tell_failure "$out/$name.$shard.log"; }
    { echo "== shard $shard of $n_shards"; cat "$out/$name.$shard.log"; } >>"$out/$name.log"
    rm "$out/$name.$shard.log"
  done
  grep -E '^\[  (PASSED|FAILED|SKIPPED) |timed out|Check failed' "$out/$name.log" | sort | uniq -c | tail -n 20
  return "$rc"
}

# What there is when the machine goes stays.
keep_results() {
  tar -C "$out" -czf "$results_dir/new" . && mv "$results_dir/new" "$results_dir/results.tar.gz"
}

# The test that a program ended in, and its last words.
tell_failure() { # log
  grep '^\[ RUN ' "$1" | tail -n 1
  tail -n 15 "$1"
}

run_shard() { # name, seconds, program, filter, shard, shards
  local log=$out/$1.$5.log rc=0
  limit=(timeout -k 10 "$2")
  BASS_TEST_GPU=1 GTEST_TOTAL_SHARDS=$6 GTEST_SHARD_INDEX=$5 run_program "$3" "--gtest_filter=$4" \
    "--gtest_output=json:$out/$1.$5.json" >"$log" 2>&1 || rc=$?
  if [ "$rc" -eq 124 ] || [ "$rc" -eq 137 ]; then echo "timed out or was killed (limit $2 s)" >>"$log"; fi
  return "$rc"
}

# The library of a Python package or of a toolkit that ldconfig does not know.
find_cublaslt() {
  local library
  if ldconfig -p 2>/dev/null | grep 'libcublasLt\.so' >/dev/null; then return 0; fi
  library=$(find /usr/local/cuda*/lib64 /usr/local/cuda*/targets/*/lib \
    "$(python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))' 2>/dev/null)"/nvidia \
    -name 'libcublasLt.so.*' 2>/dev/null | head -n 1)
  if [ -z "$library" ]; then
    echo "there is no cuBLASLt, unless LD_LIBRARY_PATH names its folder: what needs it fails"
    return 0
  fi
  LD_LIBRARY_PATH=$(dirname "$library")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  export LD_LIBRARY_PATH
}

# Kernels against the CPU's and reference/, and whole generations against the CPU backend: bit by bit.
stage_correctness() {
  local rc=0 without="" n_shards=$((($(nproc) + 1) / 2))
  [ -f "${BASS_TEST_MODEL:-}" ] || { without="-*TheDefaultModel*"; echo "without the default model: BASS_TEST_MODEL is not a file"; }
  run_tests kernels 240 bass_kernels_test 'Gpu*' "$n_shards" || rc=1
  keep_results
  run_tests identity 400 bass_gpu_test "*$without" "$n_shards" || rc=1
  return "$rc"
}

# compute-sanitizer over the kernel tests, whose shapes are small, and over one generation.
stage_sanitizer() {
  command -v compute-sanitizer >/dev/null || { echo "there is no compute-sanitizer on the PATH"; return 1; }
  local rc=0 tool
  local filter='GpuRows.*:GpuEmbedding.*:GpuProduct.Adds*:GpuProduct.*AnySize*:GpuSkinnyProduct.*:GpuLibraryProduct.Rows*'
  filter+=':GpuExperts.*:GpuAttention*:GpuFloatAttention*:GpuRounds*:GpuDevice*'
  local -a runs=()
  for tool in memcheck racecheck initcheck synccheck; do
    sanitize "$tool" "$filter" &
    runs+=($!)
  done
  for tool in "${runs[@]}"; do wait "$tool" || rc=1; done
  return "$rc"
}

sanitize() { # tool, filter
  local rc=0
  wrapper=(compute-sanitizer --tool "$1" --error-exitcode 99 --print-limit 20)
  run_tests "sanitizer_$1" 200 bass_kernels_test "$2" || rc=1
  run_tests "sanitizer_${1}_generation" 120 bass_gpu_test '*EveryDraftMade*' || rc=1
  return "$rc"
}

# Decoding with the CPU and the GPU, beside each other.
stage_timing() {
  local rc=0 model=${BASS_TEST_MODEL:-}
  if [ ! -f "$model" ]; then
    model=$(mktemp -d)/llama-1b.gguf
    run_program bass synth --config llama-1b --type q8_0 -o "$model" >"$out/synth.log" 2>&1 || {
      echo "no model: BASS_TEST_MODEL is not a file, and none could be made"
      return 1
    }
  fi
  local batch
  for batch in 1 8 32; do
    run_program bass bench decode -m "$model" --device cuda --batch "$batch" --rounds 1 --json >"$out/decode_$batch.json" \
      2>"$out/decode_$batch.log" || rc=1
    tail -n 3 "$out/decode_$batch.log"
    # What graphs save: the same, launched kernel by kernel.
    BASS_NO_GRAPHS=1 run_program bass bench decode -m "$model" --device cuda --batch "$batch" --rounds 1 --json \
      >"$out/decode_${batch}_no_graphs.json" 2>"$out/decode_${batch}_no_graphs.log" || rc=1
  done
  return "$rc"
}

# The layouts of ragged attention by heads, lengths and sequences, and with tokens to verify: the paper's open question;
# with 8 sequences also from a cache of floats.
stage_attention() {
  local rc=0 queries
  for queries in 1 5; do
    attention_bench "attention_$queries" "$queries" 1,4,8,32 int16 || rc=1
    attention_bench "attention_${queries}_bf16" "$queries" 8 bf16 || rc=1
  done
  return "$rc"
}

attention_bench() { # name of the results, tokens to verify, sequences, type of the cache
  local rc=0
  run_program bass bench attention --device cuda --heads 8,16,32,64 --group 4 --head-dim 64 --context 512,4096 \
    --queries "$2" --batch "$3" --kv-type "$4" --json >"$out/$1.jsonl" 2>"$out/$1.log" || rc=1
  tail -n 2 "$out/$1.log"
  return "$rc"
}

# What a pass of a draft takes by its depth and width.
stage_drafts() {
  local bass=$out/bass program=$PWD/build/cuda/bass libraries=""
  if [ -n "${BASS_GPU_PACK:-}" ]; then  # its libraries are for the program alone, and not for python3
    program=$BASS_GPU_PACK/bass
    libraries="LD_LIBRARY_PATH='$BASS_GPU_PACK/lib:${LD_LIBRARY_PATH:-}'"
  fi
  printf '#!/bin/sh\nexec timeout -k 10 300 env %s "%s" "$@"\n' "$libraries" "$program" >"$bass"
  chmod +x "$bass"
  python3 bench/draft_latency.py --bass "$bass" --device cuda --depths 2,4,8,16 --widths 256,512,1024,2048,4096 --json \
    >"$out/draft_latency.jsonl" 2>"$out/draft_latency.log" || {
    tail -n 3 "$out/draft_latency.log"
    return 1
  }
  wc -l "$out/draft_latency.jsonl"
}

# The paper's comparison: models of its shapes with random weights, acceptance scripted. int8 by our kernels, then int8
# and bfloat16 by the library's. ${PAPER_SHAPES:-} may name others of `bass synth`, as "paper-opt-13b paper-opt-125m".
stage_paper() {
  local rc=0 folder main draft activations layout name
  read -r main draft <<<"${PAPER_SHAPES:-paper-7.8b paper-310m}"
  folder=$(mktemp -d)
  if ! { run_program bass synth --config "$main" --type q8_0 -o "$folder/main.gguf" &&
    run_program bass synth --config "$draft" --type q8_0 -o "$folder/draft.gguf"; } >"$out/paper_synth.log" 2>&1; then
    cat "$out/paper_synth.log"
    rm -rf "$folder"
    return 1
  fi
  # A call for each: what there is when time is up stays. So "/regular" is over a layout's own regular decoding. pad and
  # split always run kernel by kernel, the others as graphs.
  for activations in int8 w8a8 bf16; do
    for layout in fused split-grouped split pad; do
      name=paper_${activations}_$layout
      run_program bass bench paper -m "$folder/main.gguf" -d "$folder/draft.gguf" --device cuda \
        --activations "$activations" --layouts "$layout" --draft-lengths off,fixed:4,bass,goodput --batch "${PAPER_BATCHES:-8}" \
        --acceptance "${PAPER_ACCEPTANCE:-0.8}" --max-step-tokens 2048 --rounds 1 --json >"$out/$name.json" 2>"$out/$name.log" || rc=1
      tail -n 2 "$out/$name.log"
      keep_results
    done
  done
  rm -rf "$folder"
  return "$rc"
}

if [ "${1:-}" = pack ]; then
  [ $# -eq 2 ] || fail "usage: tools/gpu_check.sh pack FILE"
  pack "$2"
  exit
fi
stages=("$@")
[ "${#stages[@]}" -gt 0 ] || stages=(correctness paper timing attention drafts sanitizer)
for stage in "${stages[@]}"; do
  case "$stage" in
    correctness | sanitizer | timing | attention | drafts | paper) ;;
    *) fail "usage: tools/gpu_check.sh [correctness|sanitizer|timing|attention|drafts|paper ...], or tools/gpu_check.sh pack FILE" ;;
  esac
done
gpu=$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null | head -n 1)
[ -n "$gpu" ] || fail "there is no NVIDIA GPU on this machine (nvidia-smi lists none); nothing was checked"
mkdir -p "$results_dir" build
out=$(mktemp -d)
trap 'rm -rf "$out" ${unpacked:+"$unpacked"}' EXIT
trap 'exit 130' INT TERM
unpack
if [ -z "${BASS_GPU_PACK:-}" ]; then build >build/gpu_check.log 2>&1 || fail "the build failed: build/gpu_check.log"; fi

echo "GPU: $gpu" | tee "$results_dir/summary.txt"
find_cublaslt
results="" n_failed=0
for stage in "${stages[@]}"; do
  echo "== $stage"
  start_s=$SECONDS
  outcome=passed
  "stage_$stage" || { outcome=FAILED; n_failed=$((n_failed + 1)); }
  echo "$stage: $outcome ($((SECONDS - start_s)) s)" | tee -a "$results_dir/summary.txt"
  results+="${results:+,}{\"stage\":\"$stage\",\"outcome\":\"$outcome\",\"seconds\":$((SECONDS - start_s))}"
  printf '{"gpu":"%s","date":"%s","stages":[%s]}\n' "$gpu" "$(date -u +%F)" "$results" >"$results_dir/results.json"
  keep_results
done
[ "$n_failed" -eq 0 ]
