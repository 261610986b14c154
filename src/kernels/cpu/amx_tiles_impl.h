// The tile registers of AMX: a product of small matrices of bytes in one instruction.
//
// Written in assembly: GCC 12's intrinsics do not say that they read memory. Every thread has tiles of its own.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bass::cpu::BASS_SIMD_NAMESPACE {

inline constexpr int kTileRows = 16;   // of a product: rows of activations
inline constexpr int kTileCols = 16;   // int32 columns: output channels
inline constexpr int kTileChains = 4;  // products that TileUnit::repeat has in work at once

/// Products of kTileRows rows of k int8 with k / 4 rows of kTileCols quads of uint8. Emulated, it is plain loops with
/// the same result, so that all that is around it can be tested on processors that lack tiles.
class TileUnit {
 public:
  /// k: bytes of a row that a product takes, a multiple of 4 up to 64. Configures the calling thread's tiles.
  TileUnit(int k, bool is_emulated) : k_(k), is_emulated_(is_emulated) {
    if (!is_emulated_) configure();
  }
  ~TileUnit() {
    if (!is_emulated_) asm volatile("tilerelease");
  }
  TileUnit(const TileUnit&) = delete;
  TileUnit& operator=(const TileUnit&) = delete;

  /// out[r][c] = sum over i < k of a[r * a_stride + i] b[i / 4][c][i % 4]. b: [k / 4, kTileCols, 4], 64-byte aligned.
  /// out: [kTileRows, kTileCols]
  void multiply(const int8_t* a, ptrdiff_t a_stride, const std::byte* b, int32_t* out) const {
    if (is_emulated_) return emulate(a, a_stride, b, out);
    constexpr ptrdiff_t kRowBytes = 64;
    asm volatile(
        "tilezero %%tmm0\n\t"
        "tileloadd (%0,%1,1), %%tmm1\n\t"
        "tileloadd (%2,%4,1), %%tmm2\n\t"
        "tdpbsud %%tmm2, %%tmm1, %%tmm0\n\t"
        "tilestored %%tmm0, (%3,%4,1)"
        :
        : "r"(a), "r"(a_stride), "r"(b), "r"(out), "r"(kRowBytes)
        : "memory");
  }

  /// n times kTileChains products of what the tiles hold, for measuring. Not emulated.
  static void repeat(int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      asm volatile(
          "tdpbsud %%tmm2, %%tmm1, %%tmm0\n\t"
          "tdpbsud %%tmm2, %%tmm1, %%tmm3\n\t"
          "tdpbsud %%tmm2, %%tmm1, %%tmm4\n\t"
          "tdpbsud %%tmm2, %%tmm1, %%tmm5"
          :
          :
          : "memory");
    }
  }

 private:
  /// Palette 1: tile 1 has the signed rows, 2 the unsigned quads, 0 the product, and so have 3 to 5.
  void configure() const {
    struct alignas(64) {
      uint8_t palette = 1;
      uint8_t start_row = 0;
      uint8_t reserved[14] = {};
      uint16_t row_bytes[16] = {};
      uint8_t n_rows[16] = {};
    } config;
    for (int i = 0; i < 6; ++i) {
      config.row_bytes[i] = static_cast<uint16_t>(i == 1 ? k_ : 64);
      config.n_rows[i] = static_cast<uint8_t>(i == 2 ? k_ / 4 : kTileRows);
    }
    asm volatile("ldtilecfg %0" : : "m"(config));
  }

  void emulate(const int8_t* a, ptrdiff_t a_stride, const std::byte* b, int32_t* out) const {
    for (int r = 0; r < kTileRows; ++r) {
      for (int c = 0; c < kTileCols; ++c) {
        int32_t sum = 0;
        for (int i = 0; i < k_; ++i)
          sum += a[r * a_stride + i] * static_cast<int32_t>(b[(i / 4 * kTileCols + c) * 4 + i % 4]);
        out[r * kTileCols + c] = sum;
      }
    }
  }

  int k_;
  bool is_emulated_;
};

}  // namespace bass::cpu::BASS_SIMD_NAMESPACE
