// Which experts see which rows: choosing, gathering the rows for them, adding what they give. The arithmetic is the CPU
// backend's (executor/cpu/forward_experts.cc).
#pragma once

#include "kernels/cuda/experts/expert_product.h"

namespace bass::cuda {

inline constexpr int kMaxGpuExperts = 1024;  // a bit for each of a lane's

/// The n_used most probable experts of each row (of equals, those of lower ids) by the softmax of the router's logits,
/// summed in the order of ids. A warp has a row.
struct ChooseExperts {
  static constexpr const char* kName = "choose_experts";
  static constexpr int kMaxThreads = 128;
  static constexpr bool kCooperates = true;

  float* probabilities = nullptr;  // [n_rows, n_experts] logits; unnormalised probabilities afterwards
  int32_t n_rows = 0;
  int32_t n_experts = 0;
  int32_t n_used = 0;
  int32_t sum_to_one = 0;     // the weights of a row
  int32_t* chosen = nullptr;  // [n_rows, n_used] ids, ascending
  float* weights = nullptr;   // [n_rows, n_used]

  [[nodiscard]] LaunchShape shape() const { return {{ceil_div(n_rows, kMaxThreads / kWarpLen), 1, 1}, kMaxThreads, 0}; }

  template <class Context>
  BASS_HD void operator()(Context& context) const {
    const int row = context.block().x * (kMaxThreads / kWarpLen) + context.warp();
    if (row >= n_rows) return;
    float* p = probabilities + int64_t{row} * n_experts;
    float largest = -kInf;
    for (int e = context.lane(); e < n_experts; e += kWarpLen) largest = max_of(largest, p[e]);
    for (int mask = kWarpLen / 2; mask > 0; mask /= 2) largest = max_of(largest, context.shuffle_xor(largest, mask));
    for (int e = context.lane(); e < n_experts; e += kWarpLen) p[e] = exp_f32(p[e] - largest);
    context.sync_warp();
    uint32_t taken = 0;  // of the lane's experts, bit e / 32
    for (int i = 0; i < n_used; ++i) {
      const int best = best_left(context, p, taken);
      if (best % kWarpLen == context.lane()) taken |= 1u << (best / kWarpLen);
      if (context.lane() == 0) insert(chosen + int64_t{row} * n_used, i, best);
    }
    if (context.lane() == 0) weigh(p, chosen + int64_t{row} * n_used, weights + int64_t{row} * n_used);
  }

 private:
  struct Candidate {
    float p;
    int32_t id;
  };

  // What is not a number comes last, so that there always is an id.
  template <class Context>
  BASS_HD int best_left(Context& context, const float* p, uint32_t taken) const {
    Candidate best{-2.0f, n_experts};
    for (int e = context.lane(); e < n_experts; e += kWarpLen) {
      if ((taken >> (e / kWarpLen) & 1u) != 0) continue;
      const float x = p[e] >= 0.0f ? p[e] : -1.0f;
      if (x > best.p) best = {x, e};
    }
    for (int mask = kWarpLen / 2; mask > 0; mask /= 2) {
      const Candidate other{context.shuffle_xor(best.p, mask), context.shuffle_xor(best.id, mask)};
      if (other.p > best.p || (other.p == best.p && other.id < best.id)) best = other;
    }
    return best.id;
  }

  BASS_HD static void insert(int32_t* ids, int n, int id) {
    for (; n > 0 && ids[n - 1] > id; --n) ids[n] = ids[n - 1];
    ids[n] = id;
  }

  BASS_HD void weigh(const float* p, const int32_t* ids, float* row_weights) const {
    float sum = 0.0f;
    if (sum_to_one != 0) {
      for (int i = 0; i < n_used; ++i) sum += p[ids[i]];
    } else {
      for (int e = 0; e < n_experts; ++e) sum += p[e];
    }
    for (int i = 0; i < n_used; ++i) row_weights[i] = p[ids[i]] / sum;
  }
};

/// Gives each (row, chosen expert) its slot. One block; a thread has an expert.
struct PlaceExperts {
  static constexpr const char* kName = "place_experts";
  static constexpr int kMaxThreads = 256;
  static constexpr bool kCooperates = true;

  const int32_t* chosen = nullptr;  // [n_rows, n_used]
  int32_t n_rows = 0;
  int32_t n_used = 0;
  int32_t n_experts = 0;
  int32_t* begins = nullptr;  // [n_experts + 1]
  int32_t* slots = nullptr;   // [n_rows, n_used]
  int32_t* rows = nullptr;    // [n_rows n_used] the row of each slot

  [[nodiscard]] LaunchShape shape() const { return {{1, 1, 1}, kMaxThreads, 0}; }

  template <class Context>
  BASS_HD void operator()(Context& context) const {
    const int n_pairs = n_rows * n_used;
    for (int e = context.thread(); e < n_experts; e += context.n_threads()) {
      int n = 0;
      for (int i = 0; i < n_pairs; ++i) n += chosen[i] == e ? 1 : 0;
      begins[e + 1] = n;
    }
    context.sync();
    if (context.thread() == 0) {
      begins[0] = 0;
      for (int e = 0; e < n_experts; ++e) begins[e + 1] += begins[e];
    }
    context.sync();
    for (int e = context.thread(); e < n_experts; e += context.n_threads()) {
      int slot = begins[e];
      for (int i = 0; i < n_pairs; ++i) {
        if (chosen[i] != e) continue;
        slots[i] = slot;
        rows[slot++] = i / n_used;
      }
    }
  }
};

/// Copies the rows of slots. A block has a slot.
struct GatherActivations {
  static constexpr const char* kName = "gather_activations";
  static constexpr int kMaxThreads = 128;
  static constexpr bool kCooperates = false;

  DeviceActivations from;
  const int32_t* rows = nullptr;  // [n_slots]
  int32_t n_slots = 0;
  DeviceActivations to;  // the same forms

  [[nodiscard]] LaunchShape shape() const { return {{n_slots, 1, 1}, kMaxThreads, 0}; }

  template <class Context>
  BASS_HD void operator()(Context& context) const {
    const DeviceActivations source = from.from_row(rows[context.block().x]);
    const DeviceActivations target = to.from_row(context.block().x);
    const int n_cols = from.n_cols;
    if (from.f32 != nullptr) copy(context, source.f32, target.f32, n_cols);
    if (from.q == nullptr) return;
    for (int plane = 0; plane < from.n_planes; ++plane) {  // whole groups, so whole words
      copy(context, reinterpret_cast<const int32_t*>(source.q + plane * from.plane_stride),
           reinterpret_cast<int32_t*>(target.q + plane * to.plane_stride), n_cols / 4);
    }
    copy(context, source.scale, target.scale, n_cols / kGroupLen);
    copy(context, source.sums, target.sums, n_cols / kGroupLen * 2);
  }

 private:
  template <class Context, class T>
  BASS_HD static void copy(const Context& context, const T* source, T* target, int n) {
    for (int i = context.thread(); i < n; i += context.n_threads()) target[i] = source[i];
  }
};

/// x += the results of a row's experts, in the order of their ids, times their weights.
struct AddExperts {
  static constexpr const char* kName = "add_experts";
  static constexpr int kMaxThreads = 128;
  static constexpr bool kCooperates = false;

  const float* results = nullptr;  // [slots, n]
  const int32_t* slots = nullptr;  // [n_rows, n_used]
  const float* weights = nullptr;  // [n_rows, n_used]
  int32_t n_rows = 0;
  int32_t n_used = 0;
  int32_t n = 0;
  float* x = nullptr;  // [n_rows, n]

  [[nodiscard]] LaunchShape shape() const { return {{n_rows, ceil_div(n, kMaxThreads), 1}, kMaxThreads, 0}; }

  template <class Context>
  BASS_HD void operator()(Context& context) const {
    const int c = context.block().y * context.n_threads() + context.thread();
    if (c >= n) return;
    const int row = context.block().x;
    float sum = x[int64_t{row} * n + c];
    for (int i = row * n_used; i < (row + 1) * n_used; ++i) sum += weights[i] * results[int64_t{slots[i]} * n + c];
    x[int64_t{row} * n + c] = sum;
  }
};

}  // namespace bass::cuda
