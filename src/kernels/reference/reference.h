// The arithmetic that kernels.h states, in obvious scalar loops over file-format weights and plain arrays. Kernels of
// every instruction set must give the same bits. Slow; for tests, and to read. Only exp and exp2 are shared with the
// kernels (their accuracy has a test of its own).
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/kernels.h"
#include "tensor/dtype.h"

namespace bass::reference {

/// A row of activations quantised in groups of kGroupLen.
struct QuantisedRow {
  std::vector<int32_t> q;         // [n], whole numbers, also where kernels store them as two planes
  std::vector<float> scale;       // [n / kGroupLen]
  std::vector<int32_t> sum;       // [n / kGroupLen]
  std::vector<float> scaled_sum;  // [n / kGroupLen]
};

/// x: [n], a multiple of kGroupLen; n_planes: 1 (q up to 127) or 2 (q up to 32512)
QuantisedRow quantise(const float* x, int n, int n_planes);

/// One output channel: the dot product of a quantised row of weights in the file's layout with a row of activations.
float quantised_dot(DType type, const void* weights, const QuantisedRow& x);

/// The same for F32, F16 and BF16. x: [n]
float float_dot(DType type, const void* weights, const float* x, int n);

void rms_norm(const float* x, const float* weight, int n, float eps, float* out);
void layer_norm(const float* x, const float* weight, const float* bias, int n, float eps, float* out);
void activate(cpu::Activation kind, const float* gate, const float* up, int n, float* out);  // up: may be null
float soft_cap(float x, float cap);
void rope(float* head, int rope_dim, const float* cos_pairs, const float* sin_pairs);

/// e^x, and 2^max(x, -60) for x <= 0, with the bits that all kernels give.
float exp_f32(float x);
float exp2_f32(float x);

/// A head as attention sees it: q * scale.
struct QuantisedHead {
  std::vector<int32_t> q;  // [n]
  float scale = 0;
};
constexpr float kInt16Steps = 32512.0f;
constexpr float kInt8Steps = 127.0f;
QuantisedHead quantise_by_norm(const float* x, int n);                  // queries, and keys in int16
QuantisedHead quantise_by_maximum(const float* x, int n, float steps);  // values, and keys in int8

/// Attention of one query head over its KV head.
struct AttentionHead {
  int head_dim = 0;
  const float* q = nullptr;       // [head_dim]
  const float* keys = nullptr;    // [n_positions, head_dim]
  const float* values = nullptr;  // [n_positions, head_dim]
  int n_positions = 0;            // first_seen .. n_positions - 1 are seen
  int first_seen = 0;
  float score_scale = 0;  // as in cpu::KvShape
  float score_cap = 0;
  bool is_int8 = false;  // keys and values are cached in int8, else in int16
};
void attend(const AttentionHead& head, float* out);  // out: [head_dim]

}  // namespace bass::reference
