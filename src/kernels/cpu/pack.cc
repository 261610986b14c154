#include "kernels/cpu/pack.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace bass::cpu {
namespace {

constexpr int kQuadLen = 4;
constexpr int kHalfGroup = kGroupLen / 2;

// One channel of one tile: `lane` of it, from a row in the file's layout.
template <class Block, class PackQuants>
void pack_scaled_lane(const PackSource& source, const std::byte* row, int lane, std::byte* tile,
                      PackQuants pack_quants) {
  const size_t n_groups = static_cast<size_t>(source.n_in) / kGroupLen;
  const size_t group_bytes = packed_group_bytes(source.type);
  std::byte* scales = tile + n_groups * group_bytes;
  std::byte* minima = scales + n_groups * kTileLen * 2;
  for (size_t g = 0; g < n_groups; ++g) {
    Block block;
    std::memcpy(&block, row + g * sizeof(Block), sizeof(Block));
    pack_quants(block, tile + g * group_bytes + static_cast<size_t>(lane) * kQuadLen);
    const size_t scale_offset = (g * kTileLen + static_cast<size_t>(lane)) * 2;
    std::memcpy(scales + scale_offset, &block.d, 2);
    if constexpr (requires { block.m; }) std::memcpy(minima + scale_offset, &block.m, 2);
  }
}

// Bytes of a row, four by four, to their places in a group: quad i of this lane is 64 bytes after quad i - 1.
void spread_quads(const uint8_t* bytes, int n_bytes, std::byte* dst) {
  for (int i = 0; i < n_bytes / kQuadLen; ++i)
    std::memcpy(dst + i * kQuadLen * kTileLen, bytes + i * kQuadLen, kQuadLen);
}

void pack_float_lane(const PackSource& source, const std::byte* row, int lane, std::byte* tile) {
  const size_t element = source.type == DType::kF32 ? 4 : 2;
  for (size_t k = 0; k < static_cast<size_t>(source.n_in); ++k) {
    std::memcpy(tile + (k * kTileLen + static_cast<size_t>(lane)) * element, row + k * element, element);
  }
}

void pack_lane(const PackSource& source, const std::byte* row, int lane, std::byte* tile) {
  const auto pack_nibbles = [](const auto& block, std::byte* dst) { spread_quads(block.q, kHalfGroup, dst); };
  switch (source.type) {
    case DType::kQ8_0:
      pack_scaled_lane<BlockQ8_0>(source, row, lane, tile, [](const BlockQ8_0& block, std::byte* dst) {
        uint8_t shifted[kGroupLen];
        for (int i = 0; i < kGroupLen; ++i) shifted[i] = static_cast<uint8_t>(block.q[i] + 128);
        spread_quads(shifted, kGroupLen, dst);
      });
      return;
    case DType::kQ4_0:
      pack_scaled_lane<BlockQ4_0>(source, row, lane, tile, pack_nibbles);
      return;
    case DType::kQ4_1:
      pack_scaled_lane<BlockQ4_1>(source, row, lane, tile, pack_nibbles);
      return;
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      pack_float_lane(source, row, lane, tile);
      return;
  }
}

uint16_t load_u16(const std::byte* p) {
  uint16_t bits;
  std::memcpy(&bits, p, sizeof(bits));
  return bits;
}

void unpack_float_lane(DType type, int n_in, const std::byte* tile, size_t lane, float* out) {
  for (size_t k = 0; k < static_cast<size_t>(n_in); ++k) {
    const size_t i = k * kTileLen + lane;
    if (type == DType::kF32) {
      std::memcpy(out + k, tile + i * 4, sizeof(float));
    } else {
      const uint16_t bits = load_u16(tile + i * 2);
      out[k] = type == DType::kF16 ? f16_to_f32(bits) : bf16_to_f32(bits);
    }
  }
}

// The quants of one group of one lane as signed numbers, as the format means them.
void unpack_quants(DType type, const std::byte* group, size_t lane, int* q) {
  const int offset = type == DType::kQ8_0 ? 128 : type == DType::kQ4_0 ? 8 : 0;
  const int n_bytes = type == DType::kQ8_0 ? kGroupLen : kHalfGroup;
  for (int i = 0; i < n_bytes; ++i) {
    const size_t quad = static_cast<size_t>(i / kQuadLen) * kTileLen + lane;
    const int byte = std::to_integer<int>(group[quad * kQuadLen + static_cast<size_t>(i % kQuadLen)]);
    if (type == DType::kQ8_0) {
      q[i] = byte - offset;
    } else {
      q[i] = (byte & 15) - offset;
      q[i + kHalfGroup] = (byte >> 4) - offset;
    }
  }
}

}  // namespace

size_t packed_bytes(DType type, int n_out, int n_in) {
  return static_cast<size_t>((n_out + kTileLen - 1) / kTileLen) * packed_tile_bytes(type, n_in);
}

void pack_tiles(const PackSource& source, WorkRange tiles, std::byte* dst) {
  const size_t tile_bytes = packed_tile_bytes(source.type, source.n_in);
  for (int t = tiles.begin; t < tiles.end; ++t) {
    std::byte* tile = dst + static_cast<size_t>(t) * tile_bytes;
    std::memset(tile, 0, tile_bytes);
    const int first = t * kTileLen;
    for (int lane = 0; lane < std::min(kTileLen, source.n_out - first); ++lane) {
      pack_lane(source, source.rows + static_cast<size_t>(first + lane) * source.row_bytes, lane, tile);
    }
  }
}

void unpack_row(const PackedMatrix& matrix, int row, float* out) {
  BASS_CHECK(row >= 0 && row < matrix.n_out);
  const std::byte* tile =
      matrix.data + static_cast<size_t>(row / kTileLen) * packed_tile_bytes(matrix.type, matrix.n_in);
  const auto lane = static_cast<size_t>(row % kTileLen);
  if (!matrix.is_quantised()) {
    unpack_float_lane(matrix.type, matrix.n_in, tile, lane, out);
    return;
  }
  const size_t n_groups = static_cast<size_t>(matrix.n_in) / kGroupLen;
  const size_t group_bytes = packed_group_bytes(matrix.type);
  const std::byte* scales = tile + n_groups * group_bytes;
  const std::byte* minima = scales + n_groups * kTileLen * 2;
  for (size_t g = 0; g < n_groups; ++g) {
    int q[kGroupLen];
    unpack_quants(matrix.type, tile + g * group_bytes, lane, q);
    const size_t scale_offset = (g * kTileLen + lane) * 2;
    const float d = f16_to_f32(load_u16(scales + scale_offset));
    const float m = matrix.type == DType::kQ4_1 ? f16_to_f32(load_u16(minima + scale_offset)) : 0.0f;
    float* group_out = out + g * kGroupLen;
    for (int i = 0; i < kGroupLen; ++i) {
      const float product = d * static_cast<float>(q[i]);
      group_out[i] = matrix.type == DType::kQ8_0 ? product : product + m;
    }
  }
}

}  // namespace bass::cpu
