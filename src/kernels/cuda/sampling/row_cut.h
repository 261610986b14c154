// Where top-k, top-p and min-p cut a row, by a block: the cuts of RowSampler (kernels/sampling/distribution.h).
//
// A cut is the end of the shortest front of the rule's order (logit descending, id ascending) whose weight reaches a
// target. Weights are whole numbers (ranks, or masses of row_math.h), so that no order of additions matters. The front
// is looked for by distance from the maximum, in rings that become wider: a histogram of the ring's weights says in
// which bin it ends. What lies in that bin becomes keys of 64 bits whose order is that of the rule, and histograms of
// the bits in which they differ find the last one.
#pragma once

#include "kernels/cuda/sampling/row_functions.h"
#include "kernels/sampling/row_math.h"
#include "kernels/sampling/sampling_params.h"

namespace bass::cuda {

inline constexpr int kBinBits = 8;
inline constexpr int kBins = 1 << kBinBits;
/// Bins that follow each other are added up by one lane; a gap behind them keeps lanes off each other's banks.
inline constexpr int kLaneBins = kBins / kWarpLen;
inline constexpr int kBinPlaces = kBins + kWarpLen;

/// Keys ascend as logits do, and of equal logits as ids descend. -0 is 0.
BASS_HD uint64_t key_of(float z, int32_t entry) {
  const uint32_t bits = bits_of(z + 0.0f);
  const uint32_t ordered = bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
  return uint64_t{ordered} << 32 | static_cast<uint32_t>(~static_cast<uint32_t>(entry));
}
BASS_HD cpu::KeptSet kept_from(uint64_t key) {
  const auto ordered = static_cast<uint32_t>(key >> 32);
  return {float_of(ordered >> 31 != 0 ? ordered & 0x7FFFFFFFu : ~ordered),
          static_cast<int32_t>(~static_cast<uint32_t>(key))};
}

/// The finite entries of a row whose distance from its maximum is in [near, far), in bins of equal width.
struct Ring {
  float max_z;
  float near;
  float far;  // infinite: all that is farther, in one bin

  /// -1: it is not in the ring. Of two entries of the ring the higher one is never in a later bin.
  [[nodiscard]] BASS_HD int bin_of(float z) const {
    const float distance = max_z - z;
    if (!(z >= -kFloatMax) || distance < near || (distance >= far && far < kInf)) return -1;
    if (far == kInf) return 0;
    const int bin = static_cast<int>((distance - near) * (static_cast<float>(kBins) / (far - near)));
    return bin < kBins ? bin : kBins - 1;
  }
};

/// What an entry weighs.
struct CutWeight {
  bool is_rank;  // 1 each, or else
  float max_z;
  cpu::KeptSet of;  // the mass of these

  [[nodiscard]] BASS_HD uint64_t operator()(float z, int32_t entry) const {
    if (is_rank) return 1;
    return keeps(of, z, entry) ? mass_of(z, max_z) : 0;
  }
};

/// All threads of the block call its functions, with the same arguments, and get the same results.
template <class Context>
class RowCut {
 public:
  BASS_HD explicit RowCut(const RowBlock<Context>& block) : block_(block) {
    bins_ = block_.context().template shared<uint64_t>(kBinPlaces);
    n_keys_ = block_.context().template shared<int32_t>(1);
  }
  static void count(SharedBytes& bytes) { bytes.add<uint64_t>(kBinPlaces).add<int32_t>(1); }

  /// What params keep of z. keys: scratch [n]
  BASS_HD cpu::KeptSet find(const float* z, int n, float max_z, float log_sum_exp, const SamplingParams& params,
                            uint64_t* keys) {
    cpu::KeptSet kept;
    const bool has_rank = params.top_k > 0 && params.top_k < n;
    const int n_stages = params.top_p < 1.0f ? 2 : 1;
    for (int stage = has_rank ? 0 : 1; stage < n_stages; ++stage) {
      const CutWeight weight{stage == 0, max_z, kept};
      double target = params.top_k;
      if (stage == 1) {
        target = params.top_p * (has_rank ? static_cast<double>(total(z, n, weight))
                                          : exp_of(static_cast<double>(log_sum_exp) - max_z) * kMassUnits);
      }
      find_front(z, n, target, weight, keys, &kept);
    }
    if (params.min_p > 0.0f) kept = smaller_of(kept, {max_z + log_f32(params.min_p), INT32_MAX});
    return kept;
  }

 private:
  [[nodiscard]] BASS_HD static int place_of(int bin) { return bin + bin / kLaneBins; }
  BASS_HD void clear_bins() {
    block_.sync();  // all have read them
    for (int i = block_.thread(); i < kBinPlaces; i += kRowBlockThreads) bins_[i] = 0;
    block_.sync();
  }
  BASS_HD void add_to_bin(int bin, uint64_t weight) { block_.context().atomic_add(&bins_[place_of(bin)], weight); }

  BASS_HD uint64_t total(const float* z, int n, const CutWeight& weight) {
    uint64_t mine = 0;
    block_.each(
        n, [=](int i) { return z[i]; }, [&](int i, float x) { mine += weight(x, i); });
    return block_.reduce(mine, [](uint64_t a, uint64_t b) { return a + b; });
  }

  /// The shortest front whose weight is at least `target`; `kept` stays as it is if that is never reached.
  BASS_HD void find_front(const float* z, int n, double target, const CutWeight& weight, uint64_t* keys,
                          cpu::KeptSet* kept) {
    uint64_t above = 0;  // the weight of what is in front of the bins
    for (Ring ring{weight.max_z, 0.0f, kInitialDelta};; ring = {ring.max_z, ring.far, wider_delta(ring.far)}) {
      clear_bins();
      block_.each(
          n, [=](int i) { return z[i]; },
          [&](int i, float x) {
            const int bin = ring.bin_of(x);
            if (bin >= 0) add_to_bin(bin, weight(x, i));
          });
      block_.sync();
      const int bin = reaching_bin(target, &above);
      if (bin >= 0) {
        const int n_keys = collect(z, n, ring, bin, keys);
        *kept = kept_from(last_key(keys, n_keys, target, above, weight));
        return;
      }
      if (ring.far == kInf) return;
    }
  }

  /// The first bin with which the weight reaches the target; *above becomes what is in front of it. -1, and the weight
  /// of all, if it does not. Every warp finds out by itself.
  BASS_HD int reaching_bin(double target, uint64_t* above) {
    Context& context = block_.context();
    const int lane = context.lane();
    uint64_t own = 0;
    for (int k = 0; k < kLaneBins; ++k) own += bins_[place_of(lane * kLaneBins + k)];
    uint64_t up_to = own;
    for (int step = 1; step < kWarpLen; step *= 2) {
      const uint64_t before = context.shuffle(up_to, lane >= step ? lane - step : lane);
      if (lane >= step) up_to += before;
    }
    const uint32_t reaching = context.ballot(static_cast<double>(*above + up_to) >= target);
    const int first = reaching == 0 ? kWarpLen - 1 : trailing_zeros(reaching);
    const uint64_t before = context.shuffle(reaching == 0 ? up_to : up_to - own, first);
    *above += before;
    if (reaching == 0) return -1;
    int bin = first * kLaneBins;
    for (; static_cast<double>(*above + bins_[place_of(bin)]) < target; ++bin) *above += bins_[place_of(bin)];
    return bin;
  }

  /// keys = the entries of a bin of a ring. Returns how many.
  BASS_HD int collect(const float* z, int n, const Ring& ring, int bin, uint64_t* keys) {
    if (block_.thread() == 0) *n_keys_ = 0;
    block_.sync();
    block_.each(
        n, [=](int i) { return z[i]; },
        [&](int i, float x) {
          if (ring.bin_of(x) == bin) keys[block_.context().atomic_add(n_keys_, 1)] = key_of(x, i);
        });
    block_.sync();
    return *n_keys_;
  }

  /// The last key of the front: with the weight of all that are above it the target is not reached, with its own it is.
  BASS_HD uint64_t last_key(const uint64_t* keys, int n_keys, double target, uint64_t above, const CutWeight& weight) {
    struct Ends {
      uint64_t low;
      uint64_t high;
    };
    for (Ends range{0, ~uint64_t{0}};;) {
      Ends mine{range.high, range.low};  // of the keys in the range
      for (int i = block_.thread(); i < n_keys; i += kRowBlockThreads) {
        const uint64_t key = keys[i];
        if (key < range.low || key > range.high) continue;
        mine = {key < mine.low ? key : mine.low, key > mine.high ? key : mine.high};
      }
      const Ends ends = block_.reduce(mine, [](const Ends& a, const Ends& b) {
        return Ends{a.low < b.low ? a.low : b.low, a.high > b.high ? a.high : b.high};
      });
      if (ends.low == ends.high) return ends.low;
      const int n_differing = 64 - leading_zeros(ends.low ^ ends.high);
      const int shift = n_differing > kBinBits ? n_differing - kBinBits : 0;
      clear_bins();
      for (int i = block_.thread(); i < n_keys; i += kRowBlockThreads) {
        const uint64_t key = keys[i];
        if (key < range.low || key > range.high) continue;
        const cpu::KeptSet entry = kept_from(key);
        add_to_bin(kBins - 1 - static_cast<int>(key >> shift & (kBins - 1)), weight(entry.cut_value, entry.cut_id));
      }
      block_.sync();
      const auto digit = static_cast<uint64_t>(kBins - 1 - reaching_bin(target, &above));
      range.low = ((ends.high >> shift & ~uint64_t{kBins - 1}) | digit) << shift;
      range.high = range.low + ((uint64_t{1} << shift) - 1);
    }
  }

  RowBlock<Context> block_;  // a handle
  uint64_t* bins_;           // [kBinPlaces]
  int32_t* n_keys_;          // shared
};

}  // namespace bass::cuda
