// How PackedMatrix lies in memory, and the functions that make and read it.
//
// A matrix is a sequence of tiles of kTileLen output channels, each padded to a multiple of 64 bytes. A tile is
//   Q8_0        [n_groups][8 quads][16 channels][4 elements] u8 = q + 128, then [n_groups][16] f16 scales
//   Q4_0        [n_groups][4 quads][16 channels][4 elements] nibbles: element 4i + b of the group in the low half of
//               byte b of quad i, element 16 + 4i + b in its high half; then [n_groups][16] f16 scales
//   Q4_1        the same, then [n_groups][16] f16 minima
//   F32 F16 BF16  [n_in][16 channels] in their own type
// so one 512-bit load holds 4 elements of 16 channels: an operand of a byte dot product. Channels past n_out are zero.
#pragma once

#include <cstddef>

#include "base/thread_team.h"
#include "kernels/cpu/kernels.h"
#include "tensor/dtype.h"

namespace bass::cpu {

// Internal linkage: the files of different instruction sets must not share code.
static constexpr size_t packed_group_bytes(DType type) {
  return static_cast<size_t>(kTileLen) * (type == DType::kQ8_0 ? kGroupLen : kGroupLen / 2);
}

/// Bytes of one tile; tile i begins at i times this.
static constexpr size_t packed_tile_bytes(DType type, int n_in) {
  const auto n = static_cast<size_t>(n_in);
  size_t bytes = 0;
  switch (type) {
    case DType::kF32:
      bytes = n * kTileLen * 4;
      break;
    case DType::kF16:
    case DType::kBF16:
      bytes = n * kTileLen * 2;
      break;
    case DType::kQ8_0:
    case DType::kQ4_0:
      bytes = n / kGroupLen * (packed_group_bytes(type) + kTileLen * 2);
      break;
    case DType::kQ4_1:
      bytes = n / kGroupLen * (packed_group_bytes(type) + kTileLen * 4);
      break;
  }
  return (bytes + 63) / 64 * 64;
}

/// Bytes of the data of a PackedMatrix. n_in: a multiple of kGroupLen for quantised types.
size_t packed_bytes(DType type, int n_out, int n_in);

/// Packs the channels of the tiles in `tiles` (so that threads can share the work).
/// rows: [n_out, n_in] in the file's layout, row c at rows + c * row_bytes, no alignment. dst: the whole matrix,
/// packed_bytes, 64-byte aligned.
struct PackSource {
  DType type = DType::kF32;
  int n_out = 0;
  int n_in = 0;
  const std::byte* rows = nullptr;
  size_t row_bytes = 0;
};
void pack_tiles(const PackSource& source, WorkRange tiles, std::byte* dst);

/// Dequantises one output channel (the embedding of a token, for a matrix of embeddings); the same bits as
/// dequantise_row gives for the file's row. out: [n_in]
void unpack_row(const PackedMatrix& matrix, int row, float* out);

}  // namespace bass::cpu
