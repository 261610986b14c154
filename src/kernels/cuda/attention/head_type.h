// Lengths of heads and types of their numbers that the kernels are compiled for: loops over a head unroll, and places
// in shared memory are constants.
#pragma once

#include "kernels/cuda/attention/attention_tile.h"

namespace bass::cuda {

/// kDim: head_dim; 0: any, up to kMaxGpuHeadDim. kBytes: DeviceKv::number_bytes
template <int kDim, int kBytes>
struct HeadType {
  static constexpr int kNumberBytes = kBytes;
  static constexpr int kMaxDim = kDim > 0 ? kDim : kMaxGpuHeadDim;
  /// Loops over a head of any length stay loops.
  static constexpr int kUnroll = kDim > 0 ? kMaxDim : 1;
  int32_t any_dim;

  [[nodiscard]] BASS_HD int dim() const { return kDim > 0 ? kDim : any_dim; }
  /// Of K or of V in a page; their scales lie behind both.
  [[nodiscard]] BASS_HD int plane_bytes() const { return kPageLen * dim() * kBytes; }
};

/// Calls `work` with the HeadType of `kv`. All threads of a block take the same way.
template <class Work>
BASS_HD void with_head_type(const DeviceKv& kv, const Work& work) {
  const bool is_int16 = kv.number_bytes == 2;
  switch (kv.head_dim) {
    case 64:
      return is_int16 ? work(HeadType<64, 2>{64}) : work(HeadType<64, 1>{64});
    case 80:
      return is_int16 ? work(HeadType<80, 2>{80}) : work(HeadType<80, 1>{80});
    case 96:
      return is_int16 ? work(HeadType<96, 2>{96}) : work(HeadType<96, 1>{96});
    case 128:
      return is_int16 ? work(HeadType<128, 2>{128}) : work(HeadType<128, 1>{128});
    default:
      return is_int16 ? work(HeadType<0, 2>{kv.head_dim}) : work(HeadType<0, 1>{kv.head_dim});
  }
}

}  // namespace bass::cuda
