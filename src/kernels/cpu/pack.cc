#include "kernels/cpu/pack.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/check.h"

namespace bass::cpu {
namespace {

constexpr int kQuadLen = 4;
constexpr size_t kVectorBytes = size_t{kTileLen} * kQuadLen;
constexpr int kSuperGroups = kSuperBlockLen / kGroupLen;

// The planes of the quants of a group that hold kBits bits of each from bit kShift on. `vectors` points to the lane in
// the first vector. Everything is known to the compiler, which makes vector code of the loops.
template <int kBits, int kShift = 0>
void pack_planes(const uint8_t* q, std::byte* vectors) {
  constexpr int kPlane = kBits >= 8 ? 8 : kBits >= 4 ? 4 : kBits >= 2 ? 2 : 1;
  constexpr int kBytes = kGroupLen * kPlane / 8;
  constexpr int kMask = (1 << kPlane) - 1;
  uint8_t bytes[kBytes] = {};
  for (int part = 0; part < 8 / kPlane; ++part) {
    for (int i = 0; i < kBytes; ++i) {
      bytes[i] = static_cast<uint8_t>(bytes[i] | ((q[part * kBytes + i] >> kShift) & kMask) << (part * kPlane));
    }
  }
  for (size_t v = 0; v < kPlane; ++v) std::memcpy(vectors + v * kVectorBytes, bytes + v * kQuadLen, kQuadLen);
  if constexpr (kBits > kPlane) pack_planes<kBits - kPlane, kShift + kPlane>(q, vectors + kPlane * kVectorBytes);
}

// The inverse: adds the bits to q.
template <int kBits, int kShift = 0>
void unpack_planes(const std::byte* vectors, uint8_t* q) {
  constexpr int kPlane = kBits >= 8 ? 8 : kBits >= 4 ? 4 : kBits >= 2 ? 2 : 1;
  constexpr int kBytes = kGroupLen * kPlane / 8;
  constexpr int kMask = (1 << kPlane) - 1;
  uint8_t bytes[kBytes];
  for (size_t v = 0; v < kPlane; ++v) std::memcpy(bytes + v * kQuadLen, vectors + v * kVectorBytes, kQuadLen);
  for (int part = 0; part < 8 / kPlane; ++part) {
    for (int i = 0; i < kBytes; ++i) {
      uint8_t& quant = q[part * kBytes + i];
      quant = static_cast<uint8_t>(quant | (bytes[i] >> (part * kPlane) & kMask) << kShift);
    }
  }
  if constexpr (kBits > kPlane) unpack_planes<kBits - kPlane, kShift + kPlane>(vectors + kPlane * kVectorBytes, q);
}

// Calls visit(std::integral_constant<int, bits>).
template <class Visit>
void with_constant_bits(int bits, Visit visit) {
  switch (bits) {
    case 2:
      return visit(std::integral_constant<int, 2>{});
    case 3:
      return visit(std::integral_constant<int, 3>{});
    case 4:
      return visit(std::integral_constant<int, 4>{});
    case 5:
      return visit(std::integral_constant<int, 5>{});
    case 6:
      return visit(std::integral_constant<int, 6>{});
    default:
      BASS_CHECK(bits == 8);
      return visit(std::integral_constant<int, 8>{});
  }
}

void pack_group(int bits, const uint8_t* q, std::byte* vectors) {
  with_constant_bits(bits, [&]<int kBits>(std::integral_constant<int, kBits>) { pack_planes<kBits>(q, vectors); });
}

void unpack_group(int bits, const std::byte* vectors, uint8_t* q) {
  std::memset(q, 0, kGroupLen);
  with_constant_bits(bits, [&]<int kBits>(std::integral_constant<int, kBits>) { unpack_planes<kBits>(vectors, q); });
}

// The parts of a tile, for one lane of it.
struct QuantLane {
  QuantFormat format;
  QuantTileLayout layout;
  size_t lane;
  size_t n_groups;  // of kGroupLen

  QuantLane(DType type, int n_in, size_t lane_idx)
      : format(quant_format(type)), lane(lane_idx), n_groups(static_cast<size_t>(n_in) / kGroupLen) {
    layout = quant_tile_layout(format, n_groups);
  }
  // Offsets in the tile.
  [[nodiscard]] size_t quants(size_t g) const { return g * packed_group_bytes(format) + lane * kQuadLen; }
  [[nodiscard]] size_t half(size_t part, size_t idx) const { return part + (idx * kTileLen + lane) * 2; }
  [[nodiscard]] size_t byte(size_t part, size_t idx) const { return part + idx * kTileLen + lane; }
  [[nodiscard]] size_t n_block_scales() const { return static_cast<size_t>(kSuperBlockLen / format.group_len); }
};

// One block of one channel to its place; block_idx counts blocks of the file's type.
void pack_block(const QuantLane& at, const UnpackedBlock& block, size_t block_idx, std::byte* tile) {
  const size_t n_block_groups = at.format.is_k ? kSuperGroups : 1;
  for (size_t g = 0; g < n_block_groups; ++g) {
    pack_group(at.format.bits, block.q + g * kGroupLen, tile + at.quants(block_idx * n_block_groups + g));
  }
  if (!at.format.is_k) {
    std::memcpy(tile + at.half(at.layout.scales, block_idx), &block.d, 2);
    if (at.format.has_minimum) std::memcpy(tile + at.half(at.layout.minima, block_idx), &block.m, 2);
    return;
  }
  for (size_t i = 0; i < at.n_block_scales(); ++i) {
    const size_t idx = block_idx * at.n_block_scales() + i;
    tile[at.byte(at.layout.scales, idx)] = static_cast<std::byte>(block.scales[i]);
    if (at.format.has_minimum) tile[at.byte(at.layout.minima, idx)] = static_cast<std::byte>(block.minima[i]);
  }
  std::memcpy(tile + at.half(at.layout.super_scales, block_idx), &block.d, 2);
  if (at.format.has_minimum) std::memcpy(tile + at.half(at.layout.super_minima, block_idx), &block.m, 2);
}

// The inverse of pack_block.
void read_block(const QuantLane& at, const std::byte* tile, size_t block_idx, UnpackedBlock* block) {
  const size_t n_block_groups = at.format.is_k ? kSuperGroups : 1;
  for (size_t g = 0; g < n_block_groups; ++g) {
    unpack_group(at.format.bits, tile + at.quants(block_idx * n_block_groups + g), block->q + g * kGroupLen);
  }
  if (!at.format.is_k) {
    std::memcpy(&block->d, tile + at.half(at.layout.scales, block_idx), 2);
    if (at.format.has_minimum) std::memcpy(&block->m, tile + at.half(at.layout.minima, block_idx), 2);
    return;
  }
  for (size_t i = 0; i < at.n_block_scales(); ++i) {
    const size_t idx = block_idx * at.n_block_scales() + i;
    block->scales[i] = static_cast<int8_t>(tile[at.byte(at.layout.scales, idx)]);
    if (at.format.has_minimum) block->minima[i] = static_cast<int8_t>(tile[at.byte(at.layout.minima, idx)]);
  }
  std::memcpy(&block->d, tile + at.half(at.layout.super_scales, block_idx), 2);
  if (at.format.has_minimum) std::memcpy(&block->m, tile + at.half(at.layout.super_minima, block_idx), 2);
}

bool is_float(DType type) { return type == DType::kF32 || type == DType::kF16 || type == DType::kBF16; }

void pack_float_lane(const PackSource& source, const std::byte* row, int lane, std::byte* tile) {
  const size_t element = source.type == DType::kF32 ? 4 : 2;
  for (size_t k = 0; k < static_cast<size_t>(source.n_in); ++k) {
    std::memcpy(tile + (k * kTileLen + static_cast<size_t>(lane)) * element, row + k * element, element);
  }
}

// One channel of one tile: `lane` of it, from a row in the file's layout.
void pack_lane(const PackSource& source, const std::byte* row, int lane, std::byte* tile) {
  if (is_float(source.type)) {
    pack_float_lane(source, row, lane, tile);
    return;
  }
  const DTypeInfo& info = dtype_info(source.type);
  const QuantLane at(source.type, source.n_in, static_cast<size_t>(lane));
  UnpackedBlock block;
  for (int b = 0; b < source.n_in / info.block_len; ++b) {
    unpack_block(source.type, row + static_cast<ptrdiff_t>(b) * info.block_bytes, &block);
    pack_block(at, block, static_cast<size_t>(b), tile);
  }
}

/// One channel in a tile.
struct TileLane {
  size_t lane;
  std::byte* tile;
};

// Of the bytes [begin, end) of two tiles, in which a channel has kBytes in each run of kTileLen times as many.
template <size_t kBytes>
void copy_part(const std::byte* from, size_t from_lane, size_t begin, size_t end, TileLane to) {
  for (size_t at = begin; at < end; at += kTileLen * kBytes) {
    std::memcpy(to.tile + at + to.lane * kBytes, from + at + from_lane * kBytes, kBytes);
  }
}

void copy_lane(const PackedMatrix& matrix, const std::byte* from, size_t from_lane, TileLane to) {
  const auto n_in = static_cast<size_t>(matrix.n_in);
  if (matrix.type == DType::kF32) return copy_part<4>(from, from_lane, 0, n_in * kTileLen * 4, to);
  if (!matrix.is_quantised()) return copy_part<2>(from, from_lane, 0, n_in * kTileLen * 2, to);
  const QuantFormat format = quant_format(matrix.type);
  const QuantTileLayout layout = quant_tile_layout(format, n_in / kGroupLen);
  copy_part<kQuadLen>(from, from_lane, 0, layout.scales, to);
  if (format.is_k) copy_part<1>(from, from_lane, layout.scales, layout.super_scales, to);
  copy_part<2>(from, from_lane, format.is_k ? layout.super_scales : layout.scales, layout.end, to);
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

}  // namespace

size_t packed_bytes(DType type, int n_out, int n_in) {
  return static_cast<size_t>((n_out + kTileLen - 1) / kTileLen) * packed_tile_bytes(packed_type(type), n_in);
}

void pack_tiles(const PackSource& source, WorkRange tiles, std::byte* dst) {
  const size_t tile_bytes = packed_tile_bytes(packed_type(source.type), source.n_in);
  for (int t = tiles.begin; t < tiles.end; ++t) {
    std::byte* tile = dst + static_cast<size_t>(t) * tile_bytes;
    std::memset(tile, 0, tile_bytes);
    const int first = t * kTileLen;
    for (int lane = 0; lane < std::min(kTileLen, source.n_out - first); ++lane) {
      const auto row = static_cast<size_t>(source.order.file_row(first + lane));
      pack_lane(source, source.rows + row * source.row_bytes, lane, tile);
    }
  }
}

void gather_tiles(const PackedMatrix& from, std::span<const int32_t> ids, WorkRange tiles, std::byte* dst) {
  const size_t tile_bytes = packed_tile_bytes(from.type, from.n_in);
  for (auto t = static_cast<size_t>(tiles.begin); t < static_cast<size_t>(tiles.end); ++t) {
    std::byte* tile = dst + t * tile_bytes;
    std::memset(tile, 0, tile_bytes);
    const auto channels = ids.subspan(t * kTileLen, std::min<size_t>(kTileLen, ids.size() - t * kTileLen));
    for (size_t lane = 0; lane < channels.size(); ++lane) {
      const int32_t id = channels[lane];
      BASS_CHECK(id >= 0 && id < from.n_out);
      const auto i = static_cast<size_t>(id);
      copy_lane(from, from.data + i / kTileLen * tile_bytes, i % kTileLen, {lane, tile});
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
  const QuantLane at(matrix.type, matrix.n_in, lane);
  const int block_len = at.format.is_k ? kSuperBlockLen : kGroupLen;
  UnpackedBlock block;
  for (int begin = 0; begin < matrix.n_in; begin += block_len) {
    read_block(at, tile, static_cast<size_t>(begin / block_len), &block);
    dequantise_block(at.format, block, block_len, out + begin);
  }
}

}  // namespace bass::cpu
