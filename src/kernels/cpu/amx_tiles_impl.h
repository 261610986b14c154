// The tile registers of AMX: a product of small matrices of bytes in one instruction.
//
// Written in assembly: GCC 12's intrinsics do not say that they read memory. Every thread has tiles of its own.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bass::cpu::BASS_SIMD_NAMESPACE {

inline constexpr int kTileRows = 16;   // at most, of a product: rows of activations
inline constexpr int kTileCols = 16;   // int32 columns: output channels
inline constexpr int kTileBytes = 64;  // of a row, at most
inline constexpr int kTileRegisters = 8;

/// What a tile register is used for: its rows, and bytes of each.
struct TileShape {
  int n_rows;
  int row_bytes;
};

/// What the instruction that configures the tiles reads.
struct alignas(64) TileConfig {
  uint8_t palette = 0;  // 0: none
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t n_rows[16] = {};

  constexpr TileConfig() = default;
  constexpr explicit TileConfig(const TileShape (&shapes)[kTileRegisters]) : palette(1) {
    for (int i = 0; i < kTileRegisters; ++i) {
      row_bytes[i] = static_cast<uint16_t>(shapes[i].row_bytes);
      n_rows[i] = static_cast<uint8_t>(shapes[i].n_rows);
    }
  }
};

/// The calling thread's tiles between products. Configuring and releasing them takes as long as a product of a few rows
/// (0.05 to 0.11 us), so a thread that has several products to compute keeps them.
class KeptTiles {
 public:
  static void keep() { keeps_ = true; }
  static void release() {
    if (config_.palette != 0) asm volatile("tilerelease");
    config_ = {};
    keeps_ = false;
  }
  /// Whether release() is still to come. Else who configured them must release them.
  static bool keeps() { return keeps_; }
  static void configure(const TileConfig& config) {
    if (keeps_ && __builtin_memcmp(&config, &config_, sizeof(config)) == 0) return;
    asm volatile("ldtilecfg %0" : : "m"(config));
    config_ = config;
  }

 private:
  inline static constinit thread_local bool keeps_ = false;
  inline static constinit thread_local TileConfig config_ = {};  // palette 0 while they are released
};

/// The processor's tiles, configured for the calling thread while this lives, and kept where KeptTiles says so.
/// Register numbers are constants of the instructions.
class HardwareTiles {
 public:
  explicit HardwareTiles(const TileConfig& config) { KeptTiles::configure(config); }
  ~HardwareTiles() {
    if (!KeptTiles::keeps()) KeptTiles::release();
  }
  HardwareTiles(const HardwareTiles&) = delete;
  HardwareTiles& operator=(const HardwareTiles&) = delete;

  template <int kTile>
  void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
  }
  /// Row r from p + r * stride, any alignment.
  template <int kTile>
  void load(const void* p, ptrdiff_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(p), "r"(stride), "i"(kTile) : "memory");
  }
  /// sum[r][c] += sum over i < row_bytes of rows[r][i] quads[i / 4][c][i % 4], all int8.
  template <int kSum, int kRows, int kQuads>
  void multiply_add() {
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kRows), "i"(kQuads));
  }
  /// out: [n_rows, kTileCols]
  template <int kTile>
  void store(int32_t* out) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(out), "r"(ptrdiff_t{kTileBytes}), "i"(kTile) : "memory");
  }
};

/// Plain loops with the same results, so that all that is around them can be tested on processors that lack tiles. What
/// those refuse stops the program here too.
class EmulatedTiles {
 public:
  explicit EmulatedTiles(const TileConfig& config) {
    for (int i = 0; i < kTileRegisters; ++i) tiles_[i].shape = {config.n_rows[i], config.row_bytes[i]};
  }

  template <int kTile>
  void zero() {
    tiles_[kTile].bytes = {};
  }
  template <int kTile>
  void load(const void* p, ptrdiff_t stride) {
    load(&tiles_[kTile], static_cast<const std::byte*>(p), stride);
  }
  template <int kSum, int kRows, int kQuads>
  void multiply_add() {
    multiply_add(&tiles_[kSum], tiles_[kRows], tiles_[kQuads]);
  }
  template <int kTile>
  void store(int32_t* out) {
    __builtin_memcpy(out, &tiles_[kTile].bytes, static_cast<size_t>(tiles_[kTile].shape.n_rows) * kTileBytes);
  }

 private:
  struct Bytes {
    int8_t at[kTileRows][kTileBytes];
  };
  struct Tile {
    TileShape shape;
    Bytes bytes;
  };

  __attribute__((noinline)) static void load(Tile* tile, const std::byte* p, ptrdiff_t stride) {
    tile->bytes = {};
    for (int r = 0; r < tile->shape.n_rows; ++r) {
      __builtin_memcpy(tile->bytes.at[r], p + r * stride, static_cast<size_t>(tile->shape.row_bytes));
    }
  }
  __attribute__((noinline)) static void multiply_add(Tile* sum, const Tile& rows, const Tile& quads) {
    if (sum->shape.n_rows != rows.shape.n_rows || rows.shape.row_bytes != 4 * quads.shape.n_rows) __builtin_trap();
    for (int r = 0; r < sum->shape.n_rows; ++r) {
      for (int c = 0; c < kTileCols; ++c) {
        int32_t value = 0;
        __builtin_memcpy(&value, &sum->bytes.at[r][c * 4], sizeof(value));
        for (int i = 0; i < rows.shape.row_bytes; ++i)
          value += rows.bytes.at[r][i] * quads.bytes.at[i / 4][c * 4 + i % 4];
        __builtin_memcpy(&sum->bytes.at[r][c * 4], &value, sizeof(value));
      }
    }
  }

  Tile tiles_[kTileRegisters] = {};
};

}  // namespace bass::cpu::BASS_SIMD_NAMESPACE
