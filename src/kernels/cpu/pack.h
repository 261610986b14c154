// How PackedMatrix lies in memory, and the functions that make and read it.
//
// A matrix is a sequence of tiles of kTileLen output channels, each padded to a multiple of 64 bytes. A tile of a float
// type is [n_in][16 channels] in its own type. A tile of a quantised type is
//   quants  [n_groups][bits][16 channels][4] bytes, in planes of 8, 4, 2 or 1 bits (6 bits are a plane of the low four
//           and one of the high two). A plane of n bits has n times 64 bytes: element 4i + b of the group (quad i) lies
//           at bits n (i / n) of byte b of a channel's four in vector i % n.
//   scales  [n_groups][16 channels] f16
//   minima  the same, in formats that have them
// and of a K type
//   scales  [n_in / group_len][16 channels] int8, minima the same where there are any,
//   then [n_in / 256][16 channels] f16: their common factors, those of the minima behind those of the scales.
// So one 512-bit load holds 4 elements of 16 channels: an operand of a byte dot product. Channels past n_out are zero.
//
// Bits a weight, where that is not the file's: Q2_K 3.125 (2.625), Q3_K 3.5625 (3.4375), Q4_K 4.625 (4.5), Q5_K 5.625
// (5.5), because scales become whole bytes, and IQ4_NL 8.5 (4.5): its codes become the numbers that they stand for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/thread_team.h"
#include "kernels/cpu/kernels.h"
#include "tensor/dtype.h"
#include "tensor/quant_format.h"
#include "tensor/row_order.h"

namespace bass::cpu {

// Internal linkage of what follows: the files of different instruction sets must not share code.

/// The type that a file's type is packed as.
static constexpr DType packed_type(DType type) { return type == DType::kIQ4_NL ? DType::kQ8_0 : type; }

/// Bytes of the quants of one group of kGroupLen elements.
static constexpr size_t packed_group_bytes(QuantFormat format) {
  return static_cast<size_t>(kTileLen) * kGroupLen / 8 * static_cast<size_t>(format.bits);
}

/// Where the parts of a quantised tile begin, in bytes from its start. Parts that the format lacks have no bytes.
struct QuantTileLayout {
  size_t scales;
  size_t minima;
  size_t super_scales;
  size_t super_minima;
  size_t end;
};

/// n_groups: of kGroupLen elements
static constexpr QuantTileLayout quant_tile_layout(QuantFormat format, size_t n_groups) {
  const size_t n_scales = n_groups * static_cast<size_t>(kGroupLen / format.group_len) * kTileLen;
  const size_t scale_bytes = n_scales * (format.is_k ? 1 : 2);
  const size_t super_bytes = format.is_k ? n_groups / (kSuperBlockLen / kGroupLen) * kTileLen * 2 : 0;
  QuantTileLayout layout{};
  layout.scales = n_groups * packed_group_bytes(format);
  layout.minima = layout.scales + scale_bytes;
  layout.super_scales = layout.minima + (format.has_minimum ? scale_bytes : 0);
  layout.super_minima = layout.super_scales + super_bytes;
  layout.end = layout.super_minima + (format.has_minimum ? super_bytes : 0);
  return layout;
}

/// Bytes of one tile; tile i begins at i times this.
static constexpr size_t packed_tile_bytes(DType type, int n_in) {
  const auto n = static_cast<size_t>(n_in);
  size_t bytes = 0;
  if (type == DType::kF32) {
    bytes = n * kTileLen * 4;
  } else if (type == DType::kF16 || type == DType::kBF16) {
    bytes = n * kTileLen * 2;
  } else {
    bytes = quant_tile_layout(quant_format(type), n / kGroupLen).end;
  }
  return (bytes + 63) / 64 * 64;
}

/// Bytes of the data of a PackedMatrix made from a file's type. n_in: a multiple of the type's block.
size_t packed_bytes(DType type, int n_out, int n_in);

/// Packs the channels of the tiles in `tiles` (so that threads can share the work).
/// rows: [n_out, n_in] in the file's layout, row c at rows + order.file_row(c) * row_bytes, no alignment. dst: the
/// whole matrix, packed_bytes, 64-byte aligned.
struct PackSource {
  DType type = DType::kF32;  // the file's
  int n_out = 0;
  int n_in = 0;
  const std::byte* rows = nullptr;
  size_t row_bytes = 0;
  RowOrder order;
};
void pack_tiles(const PackSource& source, WorkRange tiles, std::byte* dst);

/// Packs channels of another matrix: channel i is `from`'s channel ids[i], with the same bits. Only the tiles in
/// `tiles`. dst: the whole matrix of from.type, [ids.size(), from.n_in], as in pack_tiles.
void gather_tiles(const PackedMatrix& from, std::span<const int32_t> ids, WorkRange tiles, std::byte* dst);

/// Dequantises one output channel (the embedding of a token, for a matrix of embeddings); the same bits as
/// dequantise_row gives for the file's row. out: [n_in]
void unpack_row(const PackedMatrix& matrix, int row, float* out);

}  // namespace bass::cpu
