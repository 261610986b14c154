// How kernels read weights.
#pragma once

#include "kernels/cuda/host_device.h"
#include "kernels/cuda/matmul/device_matrix.h"

namespace bass::cuda {

/// The scale and the minimum of a group: scale_idx counts those of a channel along n_in, super_idx its 256 elements.
template <ScaleKind kKind>
BASS_HD float weight_scale(const DeviceMatrix& w, int tile, int scale_idx, int channel) {
  constexpr int kPerGroup = kKind == ScaleKind::kWholeHalf ? 2 : 1;
  const int n_scales = w.n_in / kGroupLen * kPerGroup;
  const int64_t at = (int64_t{tile} * n_scales + scale_idx) * kChannels + channel;
  if constexpr (kKind == ScaleKind::kPlain) return f16_to_f32(reinterpret_cast<const uint16_t*>(w.scales)[at]);
  const int super_idx = scale_idx / (kSuperBlockLen / kGroupLen * kPerGroup);
  const float d =
      f16_to_f32(w.super_scales[(int64_t{tile} * (w.n_in / kSuperBlockLen) + super_idx) * kChannels + channel]);
  return d * static_cast<float>(reinterpret_cast<const int8_t*>(w.scales)[at]);
}

template <ScaleKind kKind>
BASS_HD float weight_minimum(const DeviceMatrix& w, int tile, int scale_idx, int channel) {
  constexpr int kPerGroup = kKind == ScaleKind::kWholeHalf ? 2 : 1;
  const int n_scales = w.n_in / kGroupLen * kPerGroup;
  const int64_t at = (int64_t{tile} * n_scales + scale_idx) * kChannels + channel;
  if constexpr (kKind == ScaleKind::kPlain) return f16_to_f32(reinterpret_cast<const uint16_t*>(w.minima)[at]);
  const int super_idx = scale_idx / (kSuperBlockLen / kGroupLen * kPerGroup);
  const float m =
      f16_to_f32(w.super_minima[(int64_t{tile} * (w.n_in / kSuperBlockLen) + super_idx) * kChannels + channel]);
  return -(m * static_cast<float>(reinterpret_cast<const int8_t*>(w.minima)[at]));
}

/// Element k of a channel of floats.
BASS_HD float float_weight(const DeviceMatrix& w, int channel, int k) {
  const int64_t at = (int64_t{channel / kChannels} * w.n_in + k) * kChannels + channel % kChannels;
  if (w.type == DType::kF32) return reinterpret_cast<const float*>(w.quants)[at];
  const uint16_t bits = reinterpret_cast<const uint16_t*>(w.quants)[at];
  return w.type == DType::kF16 ? f16_to_f32(bits) : bf16_to_f32(bits);
}

/// The signed quant k of a channel.
BASS_HD int quant(const DeviceMatrix& w, int channel, int k) {
  const int group = k / kGroupLen;
  const int in_group = k % kGroupLen;
  const int in_tile = channel % kChannels;
  const int lane = in_tile % 8 * 4 + in_group % 16 / 4;
  const int part = in_group / 16;
  const int64_t record = (int64_t{channel / kChannels} * (w.n_in / kGroupLen) + group) * 32 + lane;
  if (w.bits == 8) {
    return reinterpret_cast<const int8_t*>(w.quants)[record * 16 + (part * 2 + in_tile / 8) * 4 + in_group % 4];
  }
  const auto byte = static_cast<uint8_t>(w.quants[record * 8 + in_tile / 8 * 4 + in_group % 4]);
  return (byte >> (4 * part) & 15) - w.offset;
}

/// Weight k of a channel as a number: the bits that dequantise_row gives.
BASS_HD float dequantised_weight(const DeviceMatrix& w, int channel, int k) {
  if (!w.is_quantised()) return float_weight(w, channel, k);
  const int tile = channel / kChannels;
  const int in_tile = channel % kChannels;
  const int group = k / kGroupLen;
  const auto q = static_cast<float>(quant(w, channel, k));
  float scale = 0.0f;
  float minimum = -0.0f;  // adding it changes no number
  if (w.scale_kind == ScaleKind::kPlain) {
    scale = weight_scale<ScaleKind::kPlain>(w, tile, group, in_tile);
    if (w.has_minima != 0) minimum = weight_minimum<ScaleKind::kPlain>(w, tile, group, in_tile);
  } else if (w.scale_kind == ScaleKind::kWhole) {
    scale = weight_scale<ScaleKind::kWhole>(w, tile, group, in_tile);
    if (w.has_minima != 0) minimum = weight_minimum<ScaleKind::kWhole>(w, tile, group, in_tile);
  } else {
    scale = weight_scale<ScaleKind::kWholeHalf>(w, tile, k / 16, in_tile);
    if (w.has_minima != 0) minimum = weight_minimum<ScaleKind::kWholeHalf>(w, tile, k / 16, in_tile);
  }
  return scale * q + minimum;
}

}  // namespace bass::cuda
