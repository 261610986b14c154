// The kernels for AMX: those of AVX-512 VNNI, but for matrix products of many rows.
#define BASS_SIMD_NAMESPACE avx512amx

// The vectors come first; the kernels are written in terms of them.
// clang-format off
#include "kernels/cpu/simd_avx512.h"
#include "kernels/cpu/byte_dot_impl.h"
#include "kernels/cpu/kernel_amx_impl.h"
// clang-format on

namespace bass::cpu {
namespace avx512amx {
namespace {

// For measuring: products of what the tiles hold, kChains of them in work at once.
constexpr int kChains = 4;
constexpr TileConfig kFull({{16, 64}, {16, 64}, {16, 64}, {16, 64}, {16, 64}, {16, 64}, {16, 64}, {16, 64}});
constexpr double kTileOperations = 2.0 * kTileRows * kTileCols * kTileBytes * kChains;  // of one iteration

int64_t tile_peak(int64_t n_iterations) {
  HardwareTiles tiles(kFull);
  for (int64_t i = 0; i < n_iterations; ++i) {
    tiles.multiply_add<0, 4, 5>();
    tiles.multiply_add<1, 4, 5>();
    tiles.multiply_add<2, 4, 5>();
    tiles.multiply_add<3, 4, 5>();
  }
  return 0;
}

using TileProduct = int32_t[kTileRows][kTileCols];

template <class Tiles>
void product_of(const int8_t* rows, const int8_t* quads, TileProduct* out) {
  Tiles tiles(kFull);
  tiles.template load<4>(rows, kTileBytes);
  tiles.template load<5>(quads, kTileBytes);
  tiles.template zero<0>();
  tiles.template multiply_add<0, 4, 5>();
  tiles.template store<0>((*out)[0]);
}

}  // namespace
}  // namespace avx512amx

constinit const AmxKernels kAmxKernels{
    .min_panel_rows = avx512amx::kMinRowsOnTiles,
    .quantise = avx512amx::quantise_with_panels,
    .matmul = avx512amx::matmul_on_tiles<avx512amx::HardwareTiles>,
    .keep_tiles = avx512amx::KeptTiles::keep,
    .release_tiles = avx512amx::KeptTiles::release,
    .tile_peak = {avx512amx::tile_peak, avx512amx::kTileOperations},
};

bool tiles_work() {
  using namespace avx512amx;
  alignas(64) int8_t rows[kTileRows * kTileBytes];
  alignas(64) int8_t quads[kTileRows * kTileBytes];
  for (int i = 0; i < kTileRows * kTileBytes; ++i) {
    rows[i] = static_cast<int8_t>(7 * i + i / 11);
    quads[i] = static_cast<int8_t>(5 * i + i / 7);
  }
  alignas(64) TileProduct product = {};
  alignas(64) TileProduct expected = {};
  product_of<HardwareTiles>(rows, quads, &product);
  product_of<EmulatedTiles>(rows, quads, &expected);
  return __builtin_memcmp(product, expected, sizeof(product)) == 0;
}

}  // namespace bass::cpu
