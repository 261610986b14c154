#include "kernels/cuda/matmul/pack_device.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace bass::cuda {
namespace {

constexpr size_t kLaneBytes = 16;  // of 8-bit quants of a group

size_t aligned(size_t n_bytes) { return (n_bytes + 255) / 256 * 256; }

size_t element_bytes(DType type) { return type == DType::kF32 ? 4 : 2; }

int n_scales_per_group(ScaleKind kind) { return kind == ScaleKind::kWholeHalf ? 2 : 1; }

/// A channel of a matrix on its way to the device.
struct Channel {
  const DeviceMatrix& shape;
  const DeviceMatrixLayout& layout;
  std::byte* to;
  size_t tile;
  size_t channel;  // in the tile

  [[nodiscard]] size_t n_groups() const { return static_cast<size_t>(shape.n_in / kGroupLen); }

  void pack_group(const uint8_t* q, int offset, size_t group) const {
    for (size_t k = 0; k < kGroupLen; ++k) {
      const size_t lane = channel % 8 * 4 + k % 16 / 4;
      const size_t part = k / 16;
      const size_t record = (tile * n_groups() + group) * kWarpLanes + lane;
      if (shape.bits == 8) {
        to[record * kLaneBytes + (part * 2 + channel / 8) * 4 + k % 4] = static_cast<std::byte>(q[k] - offset);
      } else {
        to[record * kLaneBytes / 2 + channel / 8 * 4 + k % 4] |= static_cast<std::byte>(q[k] << (4 * part));
      }
    }
  }

  void put(size_t part, size_t n_in_tile, size_t idx, const void* value, size_t n_bytes) const {
    std::memcpy(to + part + ((tile * n_in_tile + idx) * kChannels + channel) * n_bytes, value, n_bytes);
  }

  void pack_block(const UnpackedBlock& block, const QuantFormat& format, size_t block_idx) const {
    const size_t n_block_groups = format.is_k ? kSuperBlockLen / kGroupLen : 1;
    for (size_t g = 0; g < n_block_groups; ++g) {
      pack_group(block.q + g * kGroupLen, shape.bits == 8 ? format.offset : 0, block_idx * n_block_groups + g);
    }
    if (!format.is_k) {
      put(layout.scales, n_groups(), block_idx, &block.d, 2);
      if (format.has_minimum) put(layout.minima, n_groups(), block_idx, &block.m, 2);
      return;
    }
    const size_t n_scales = static_cast<size_t>(kSuperBlockLen / format.group_len);
    const size_t n_all = n_groups() * static_cast<size_t>(n_scales_per_group(shape.scale_kind));
    for (size_t i = 0; i < n_scales; ++i) {
      put(layout.scales, n_all, block_idx * n_scales + i, &block.scales[i], 1);
      if (format.has_minimum) put(layout.minima, n_all, block_idx * n_scales + i, &block.minima[i], 1);
    }
    const size_t n_super = static_cast<size_t>(shape.n_in / kSuperBlockLen);
    put(layout.super_scales, n_super, block_idx, &block.d, 2);
    if (format.has_minimum) put(layout.super_minima, n_super, block_idx, &block.m, 2);
  }

 private:
  static constexpr size_t kWarpLanes = 32;
};

}  // namespace

DeviceMatrix device_matrix_shape(DType type, int n_out, int n_in) {
  DeviceMatrix shape;
  shape.type = type;
  shape.n_out = n_out;
  shape.n_in = n_in;
  if (type == DType::kF32 || type == DType::kF16 || type == DType::kBF16) return shape;
  const QuantFormat format = quant_format(type);
  shape.bits = format.bits == 4 ? 4 : 8;
  shape.offset = shape.bits == 4 ? format.offset : 0;
  shape.has_minima = format.has_minimum ? 1 : 0;
  if (format.is_k) shape.scale_kind = format.group_len == kGroupLen ? ScaleKind::kWhole : ScaleKind::kWholeHalf;
  return shape;
}

DeviceMatrixLayout device_matrix_layout(const DeviceMatrix& shape) {
  const size_t n_channels = static_cast<size_t>(shape.n_tiles()) * kChannels;
  const size_t n_elements = n_channels * static_cast<size_t>(shape.n_in);
  DeviceMatrixLayout layout;
  if (!shape.is_quantised()) {
    layout.end = layout.scales = aligned(n_elements * element_bytes(shape.type));
    return layout;
  }
  const bool is_plain = shape.scale_kind == ScaleKind::kPlain;
  const size_t n_groups = n_elements / kGroupLen;
  const size_t scale_bytes = n_groups * (is_plain ? 2 : static_cast<size_t>(n_scales_per_group(shape.scale_kind)));
  const size_t super_bytes = is_plain ? 0 : n_elements / kSuperBlockLen * 2;
  layout.scales = aligned(n_elements * static_cast<size_t>(shape.bits) / 8);
  layout.minima = layout.scales + aligned(scale_bytes);
  layout.super_scales = layout.minima + (shape.has_minima != 0 ? aligned(scale_bytes) : 0);
  layout.super_minima = layout.super_scales + aligned(super_bytes);
  layout.end = layout.super_minima + (shape.has_minima != 0 ? aligned(super_bytes) : 0);
  return layout;
}

void place_device_matrix(const DeviceMatrixLayout& layout, const std::byte* data, DeviceMatrix* matrix) {
  matrix->quants = data;
  matrix->scales = data + layout.scales;
  matrix->minima = data + layout.minima;
  matrix->super_scales = reinterpret_cast<const uint16_t*>(data + layout.super_scales);
  matrix->super_minima = reinterpret_cast<const uint16_t*>(data + layout.super_minima);
}

void pack_device_tiles(const DeviceMatrix& shape, const DeviceMatrixLayout& layout, const DeviceMatrixSource& source,
                       WorkRange tiles, std::byte* to) {
  const DTypeInfo& info = dtype_info(source.type);
  const QuantFormat format = quant_format(source.type);
  UnpackedBlock block;
  for (int channel = tiles.begin * kChannels; channel < std::min(tiles.end * kChannels, shape.n_out); ++channel) {
    const std::byte* row = source.row(channel);
    const Channel at{shape, layout, to, static_cast<size_t>(channel / kChannels),
                     static_cast<size_t>(channel % kChannels)};
    if (!shape.is_quantised()) {
      const size_t n_bytes = element_bytes(shape.type);
      for (size_t k = 0; k < static_cast<size_t>(shape.n_in); ++k) {
        at.put(0, static_cast<size_t>(shape.n_in), k, row + k * n_bytes, n_bytes);
      }
      continue;
    }
    for (int b = 0; b < shape.n_in / info.block_len; ++b) {
      unpack_block(source.type, row + static_cast<ptrdiff_t>(b) * info.block_bytes, &block);
      at.pack_block(block, format, static_cast<size_t>(b));
    }
  }
}

}  // namespace bass::cuda
