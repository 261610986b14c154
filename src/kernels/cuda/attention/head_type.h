// Lengths of heads and types of their numbers that the kernels are compiled for: loops over a head unroll, and places
// in shared memory are constants.
#pragma once

#include <type_traits>

#include "kernels/cuda/attention/attention_tile.h"

namespace bass::cuda {

/// kDim: head_dim; 0: any, up to kMaxGpuHeadDim. kCached: DeviceKv::numbers
template <int kDim, KvNumbers kCached>
struct HeadType {
  static constexpr KvNumbers kNumbers = kCached;
  static constexpr int kNumberBytes = bytes_of(kCached);
  static constexpr int kMaxDim = kDim > 0 ? kDim : kMaxGpuHeadDim;
  /// Loops over a head of any length stay loops.
  static constexpr int kUnroll = kDim > 0 ? kMaxDim : 1;
  int32_t any_dim;

  [[nodiscard]] BASS_HD int dim() const { return kDim > 0 ? kDim : any_dim; }
  /// Of K or of V in a page; the scales of whole numbers lie behind both.
  [[nodiscard]] BASS_HD int plane_bytes() const { return kPageLen * dim() * kNumberBytes; }
};

template <KvNumbers kCached>
struct CachedAs {
  static constexpr KvNumbers kNumbers = kCached;
};

/// Calls `work` with the CachedAs of `numbers`, which are floats or are none: a kernel for both, with all lengths of
/// heads, is too much for the compiler's choice of registers.
template <bool kFloats, class Work>
BASS_HD void with_numbers(KvNumbers numbers, const Work& work) {
  constexpr KvNumbers kFirst = kFloats ? KvNumbers::kF16 : KvNumbers::kInt16;
  constexpr KvNumbers kSecond = kFloats ? KvNumbers::kBf16 : KvNumbers::kInt8;
  return numbers == kFirst ? work(CachedAs<kFirst>{}) : work(CachedAs<kSecond>{});
}

/// Calls `work` with the HeadType of `kv`, floats or none. All threads of a block take the same way.
template <bool kFloats, class Work>
BASS_HD void with_head_type(const DeviceKv& kv, const Work& work) {
  const auto with_dim = [&]<int kDim>() {
    with_numbers<kFloats>(kv.numbers, [&](const auto& cached) {
      work(HeadType<kDim, std::decay_t<decltype(cached)>::kNumbers>{kv.head_dim});
    });
  };
  switch (kv.head_dim) {
    case 64:
      return with_dim.template operator()<64>();
    case 80:
      return with_dim.template operator()<80>();
    case 96:
      return with_dim.template operator()<96>();
    case 128:
      return with_dim.template operator()<128>();
    default:
      return with_dim.template operator()<0>();
  }
}

}  // namespace bass::cuda
