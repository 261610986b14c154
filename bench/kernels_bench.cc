// How fast the CPU kernels are on one thread: weights read (GB/s) and arithmetic done (GOP/s, a multiplication and an
// addition each count one). BASS_FORCE_ISA chooses the instruction set.
//
//   bass_kernels_bench --benchmark_filter='matmul/Q4_1'
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/pack.h"

namespace bass::cpu {
namespace {

const Kernels& kernels() {
  static const Kernels* const kChosen = [] {
    const auto result = select_kernels();
    if (!result.ok()) {
      std::fprintf(stderr, "%s\n", result.status().message().c_str());
      std::exit(2);
    }
    return result.value();
  }();
  return *kChosen;
}

struct AlignedDelete {
  void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{64}); }
};
using AlignedBytes = std::unique_ptr<std::byte[], AlignedDelete>;

AlignedBytes make_bytes(size_t n) {
  return AlignedBytes(static_cast<std::byte*>(::operator new[](n, std::align_val_t{64})));
}

std::vector<float> random_floats(size_t n) {
  std::mt19937 rng(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& value : values) value = normal(rng);
  return values;
}

// More than the caches hold, so that a matrix is read from memory each time, as in a model's step.
constexpr size_t kWorkingSetBytes = size_t{256} << 20;

/// As many copies of one matrix as exceed the caches.
struct Weights {
  std::vector<AlignedBytes> copies;
  std::vector<PackedMatrix> matrices;
  size_t bytes;

  Weights(DType type, int n_out, int n_in) : bytes(packed_bytes(type, n_out, n_in)) {
    const DTypeInfo& info = dtype_info(type);
    // Bytes of 0x11 are small numbers in every format.
    const std::vector<std::byte> row(static_cast<size_t>(n_in / info.block_len * info.block_bytes), std::byte{0x11});
    const PackSource source{type, n_out, n_in, row.data(), 0};  // every row the same
    for (size_t i = 0; i < kWorkingSetBytes / bytes + 1; ++i) {
      copies.push_back(make_bytes(bytes));
      matrices.push_back({packed_type(type), n_out, n_in, copies.back().get()});
      pack_tiles(source, {0, matrices.back().n_tiles()}, copies.back().get());
    }
  }
};

/// n_rows of activations in all forms.
struct Activations {
  std::vector<float> f32;
  AlignedBytes groups;
  AlignedBytes panels;
  ActivationRows rows;

  Activations(int n_rows, int n_cols, int n_planes) {
    const size_t n = static_cast<size_t>(n_rows) * static_cast<size_t>(n_cols);
    f32.resize(n);
    groups = make_bytes(activation_bytes(n_rows, n_cols, n_planes));
    panels = make_bytes(panel_bytes(n_rows, n_cols, n_planes));
    rows = {n_cols, n_planes, f32.data(), groups.get(), kernels().min_panel_rows > 0 ? panels.get() : nullptr};
    kernels().quantise(random_floats(n).data(), n_cols, {0, n_rows}, {0, n_cols}, rows);
  }
};

void set_rates(benchmark::State& state, double bytes, double operations) {
  using benchmark::Counter;
  state.counters["GB/s"] = Counter(bytes * 1e-9, Counter::kIsIterationInvariantRate);
  state.counters["GOP/s"] = Counter(operations * 1e-9, Counter::kIsIterationInvariantRate);
}

// Arguments: rows, n_in, n_out, planes.
void run_matmul(benchmark::State& state, DType type) {
  const auto n_rows = static_cast<int>(state.range(0));
  const auto n_in = static_cast<int>(state.range(1));
  const auto n_out = static_cast<int>(state.range(2));
  const Weights weights(type, n_out, n_in);
  const Activations x(n_rows, n_in, static_cast<int>(state.range(3)));
  std::vector<float> out(static_cast<size_t>(n_rows) * static_cast<size_t>(n_out));
  size_t i = 0;
  for ([[maybe_unused]] auto _ : state) {
    const PackedMatrix& w = weights.matrices[i++ % weights.matrices.size()];
    kernels().matmul(w, x.rows, n_rows, {0, w.n_tiles()}, out.data(), n_out, 0, false, nullptr);
    benchmark::ClobberMemory();
  }
  set_rates(state, static_cast<double>(weights.bytes), 2.0 * n_rows * n_in * n_out);
}

// Arguments: tokens, group size, positions; head_dim 64. One sequence and one KV head.
void run_attention(benchmark::State& state) {
  constexpr int kHeadDim = 64;
  const auto n_tokens = static_cast<int>(state.range(0));
  const auto group_size = static_cast<int>(state.range(1));
  const auto n_positions = static_cast<int>(state.range(2));
  KvShape shape;
  shape.n_heads = group_size;
  shape.n_kv_heads = 1;
  shape.head_dim = kHeadDim;
  const int n_pages = (n_positions + kKvPageLen - 1) / kKvPageLen;
  const AlignedBytes storage = make_bytes(static_cast<size_t>(n_pages) * shape.head_bytes());
  std::vector<const std::byte*> pages;
  const std::vector<float> kv = random_floats(kHeadDim);
  for (int p = 0; p < n_pages; ++p) {
    std::byte* page = storage.get() + static_cast<size_t>(p) * shape.head_bytes();
    for (int t = 0; t < kKvPageLen; ++t) kernels().write_kv(shape, kv.data(), kv.data(), t, page);
    pages.push_back(page);
  }
  const int row_len = group_size * kHeadDim;
  const std::vector<float> q = random_floats(static_cast<size_t>(n_tokens * row_len));
  std::vector<float> out(q.size());
  std::vector<AttentionToken> tokens;
  for (int t = 0; t < n_tokens; ++t) {
    tokens.push_back({q.data() + t * row_len, out.data() + t * row_len, n_positions - n_tokens + t});
  }
  AttentionUnit unit;
  unit.tokens = tokens.data();
  unit.n_tokens = n_tokens;
  unit.end_chunk = n_pages;
  unit.pages = pages.data();
  for ([[maybe_unused]] auto _ : state) {
    kernels().attend(shape, unit);
    benchmark::ClobberMemory();
  }
  set_rates(state, static_cast<double>(static_cast<size_t>(n_pages) * shape.head_bytes()),
            4.0 * n_tokens * group_size * n_positions * kHeadDim);
}

void register_matmul(DType type) {
  auto* bench = benchmark::RegisterBenchmark(("matmul/" + std::string(dtype_info(type).name)).c_str(),
                                             [type](benchmark::State& state) { run_matmul(state, type); });
  bench->ArgNames({"rows", "in", "out", "planes"});
  const bool is_k = dtype_info(type).block_len == kSuperBlockLen;
  for (const int n_out : {1536, 49152}) {
    if (is_k) continue;
    for (const int n_rows : {1, 2, 4, 8, 16, 32, 64}) bench->Args({n_rows, 576, n_out, 1});
  }
  const bool is_quantised = PackedMatrix{type, 0, 0, nullptr}.is_quantised();
  if (!is_quantised) return;
  for (const int n_rows : {1, 8, 32}) bench->Args({n_rows, 768, 1536, 1});  // for all: a multiple of a K type's block
  for (const int n_rows : {1, 8, 32}) bench->Args({n_rows, is_k ? 768 : 576, 1536, 2});
}

int register_all() {
  for (const DType type :
       {DType::kQ4_1, DType::kQ4_0, DType::kQ8_0, DType::kQ5_0, DType::kQ5_1, DType::kQ2_K, DType::kQ3_K, DType::kQ4_K,
        DType::kQ5_K, DType::kQ6_K, DType::kF16, DType::kBF16, DType::kF32}) {
    register_matmul(type);
  }
  auto* bench = benchmark::RegisterBenchmark("attention", run_attention);
  bench->ArgNames({"tokens", "group", "positions"});
  for (const int n_positions : {128, 1024, 8192}) {
    for (const int n_tokens : {1, 2, 4, 8, 32}) bench->Args({n_tokens, 3, n_positions});
  }
  return 0;
}

[[maybe_unused]] const int kRegistered = register_all();

}  // namespace
}  // namespace bass::cpu
