// The kernels for AMX: those of AVX-512 VNNI, but for matrix products of many rows.
#define BASS_SIMD_NAMESPACE avx512amx

// The vectors come first; the kernels are written in terms of them.
// clang-format off
#include "kernels/cpu/simd_avx512.h"
#include "kernels/cpu/matmul_amx_impl.h"
// clang-format on
#include "kernels/cpu/kernel_tables.h"

namespace bass::cpu {
namespace avx512amx {
namespace {

// Below that the 16 rows of a tile are mostly empty. Not measured: no processor with AMX was at hand.
constexpr int kMinRows = 8;

template <bool kIsEmulated>
void matmul(const PackedMatrix& w, const ActivationRows& x, int n_rows, WorkRange tiles, float* out, int out_stride,
            int first_channel, bool accumulate, FetchQueue* fetch) {
  const detail::MatmulOut where{out, static_cast<size_t>(out_stride), first_channel, w.n_out, accumulate, w.bias};
  if (n_rows >= kMinRows && amx_matmul(w, x, n_rows, tiles, kIsEmulated, where)) return;
  kAvx512VnniKernels.matmul(w, x, n_rows, tiles, out, out_stride, first_channel, accumulate, fetch);
}

constexpr double kTileOperations = 2.0 * kTileRows * kTileCols * 64 * kTileChains;  // of one iteration

int64_t tile_peak(int64_t n_iterations) {
  const TileUnit tiles(64, false);
  TileUnit::repeat(n_iterations);
  return 0;
}

}  // namespace
}  // namespace avx512amx

constinit const AmxKernels kAmxKernels{
    avx512amx::matmul<false>, avx512amx::matmul<true>, {avx512amx::tile_peak, avx512amx::kTileOperations}};

bool tiles_work() {
  using namespace avx512amx;
  alignas(64) int8_t a[kTileRows * kGroupLen];
  alignas(64) std::byte b[kTileCols * kGroupLen];
  for (int i = 0; i < kTileRows * kGroupLen; ++i) a[i] = static_cast<int8_t>(7 * i + i / 11);
  for (int i = 0; i < kTileCols * kGroupLen; ++i) b[i] = static_cast<std::byte>(5 * i + i / 7);
  alignas(64) int32_t product[kTileRows * kTileCols] = {};
  alignas(64) int32_t expected[kTileRows * kTileCols] = {};
  TileUnit(kGroupLen, false).multiply(a, kGroupLen, b, product);
  TileUnit(kGroupLen, true).multiply(a, kGroupLen, b, expected);
  return __builtin_memcmp(product, expected, sizeof(product)) == 0;
}

}  // namespace bass::cpu
