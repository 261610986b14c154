#include "kernels/reference/reference.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>

#include "base/check.h"
#include "kernels/cpu/kernel_tables.h"
#include "tensor/quant_format.h"

namespace bass::reference {
namespace {

constexpr int kLanes = 16;
constexpr int kChunkLen = cpu::kKvPageLen;
using Lanes = std::array<float, kLanes>;

// Lane i with lane i + 8, then + 4, + 2, + 1.
float add_lanes(Lanes lanes) {
  for (int half = kLanes / 2; half >= 1; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[static_cast<size_t>(i)] += lanes[static_cast<size_t>(i + half)];
  }
  return lanes[0];
}

// The number without the two lowest bits of its mantissa.
float clear_two_bits(float x) { return std::bit_cast<float>(std::bit_cast<uint32_t>(x) & ~3u); }

float decode_float(DType type, const void* weights, size_t k) {
  if (type == DType::kF32) {
    float value;
    std::memcpy(&value, static_cast<const std::byte*>(weights) + k * sizeof(value), sizeof(value));
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, static_cast<const std::byte*>(weights) + k * sizeof(bits), sizeof(bits));
  return type == DType::kF16 ? f16_to_f32(bits) : bf16_to_f32(bits);
}

// As math_impl.h has it.
float normal_tail(float x) {
  constexpr float kCoefficients[] = {-0x1.dcb0a4p-6f, 0x1.2655e0p-3f, -0x1.054e00p-2f, 0x1.44b620p-3f, -0x1.736bccp-6f,
                                     0x1.af6068p-4f,  0x1.eb0a44p-4f, 0x1.1e6c2ap-3f,  0x1.1df20cp-3f};
  const float t = 1.0f / std::fma(x, 0.35f, 1.0f);
  float p = kCoefficients[0];
  for (size_t i = 1; i < std::size(kCoefficients); ++i) p = std::fma(p, t, kCoefficients[i]);
  return exp_f32(x * x * -0.5f) * (t * p);
}

QuantisedHead quantise_head(const std::vector<float>& x, float size, float steps) {
  QuantisedHead head;
  const bool is_zero = !(size > 1e-30f);
  const float inverse = is_zero ? 0.0f : steps / size;
  for (const float value : x) head.q.push_back(static_cast<int32_t>(std::lrintf(value * inverse)));
  head.scale = is_zero ? 0.0f : size * (1.0f / steps);
  return head;
}

std::vector<float> clamp_head(const float* x, int n) {
  std::vector<float> clamped(x, x + n);
  for (float& value : clamped) value = std::clamp(value, -65504.0f, 65504.0f);
  return clamped;
}

// The independent result of one chunk: o [head_dim] is a whole number, to be multiplied by u.
struct ChunkResult {
  float m = 0;
  float l = 0;
  float u = 0;
  std::vector<float> o;
};

using ChunkWeights = std::array<float, kChunkLen>;

// 16 lanes: positions i and i + 16 added, then the tree.
float add_positions(const ChunkWeights& x) {
  Lanes lanes;
  for (size_t i = 0; i < kLanes; ++i) lanes[i] = x[i] + x[i + kLanes];
  return add_lanes(lanes);
}

ChunkResult attend_chunk(const AttentionHead& head, int begin, int end) {
  const int first = std::max(begin, head.first_seen);
  const auto dim = static_cast<size_t>(head.head_dim);
  const QuantisedHead q = quantise_by_norm(head.q, head.head_dim);
  constexpr float kLog2E = 0x1.715476p+0f;
  const float q_scale = q.scale * (head.score_scale > 0 ? kLog2E * head.score_scale
                                                        : kLog2E / std::sqrt(static_cast<float>(head.head_dim)));
  ChunkResult chunk;
  chunk.m = -std::numeric_limits<float>::infinity();
  std::vector<float> scores;
  for (int j = first; j < end; ++j) {
    const float* row = head.keys + static_cast<size_t>(j) * dim;
    const QuantisedHead key =
        head.is_int8 ? quantise_by_maximum(row, head.head_dim, kInt8Steps) : quantise_by_norm(row, head.head_dim);
    int64_t dot = 0;
    for (size_t d = 0; d < dim; ++d) dot += int64_t{q.q[d]} * key.q[d];
    const float score = static_cast<float>(dot) * key.scale * q_scale;
    scores.push_back(head.score_cap > 0 ? soft_cap(score, head.score_cap * kLog2E) : score);
    chunk.m = std::max(chunk.m, scores.back());
  }
  ChunkWeights p{};
  ChunkWeights w{};
  std::vector<QuantisedHead> values;
  const auto n_hidden = static_cast<size_t>(first - begin);  // positions of the chunk in front of the window
  for (size_t i = 0; i < scores.size(); ++i) {
    values.push_back(quantise_by_maximum(head.values + (static_cast<size_t>(first) + i) * dim, head.head_dim,
                                         head.is_int8 ? kInt8Steps : kInt16Steps));
    p[n_hidden + i] = exp2_f32(scores[i] - chunk.m);
    w[n_hidden + i] = p[n_hidden + i] * values[i].scale;
  }
  chunk.l = add_positions(p);
  const float weight_sum = add_positions(w);
  const float factor = weight_sum > 1e-30f ? kInt16Steps / weight_sum : 0.0f;
  chunk.u = weight_sum * (1.0f / kInt16Steps);
  for (size_t d = 0; d < dim; ++d) {
    int64_t sum = 0;
    for (size_t i = 0; i < values.size(); ++i) sum += int64_t{std::lrintf(w[n_hidden + i] * factor)} * values[i].q[d];
    chunk.o.push_back(static_cast<float>(sum));
  }
  return chunk;
}

}  // namespace

float exp_f32(float x) {
  float result;
  cpu::kScalarKernels.exp(&x, 1, &result);
  return result;
}

float exp2_f32(float x) {
  float result;
  cpu::kScalarKernels.exp2(&x, 1, &result);
  return result;
}

QuantisedHead quantise_by_norm(const float* x, int n) {
  const std::vector<float> clamped = clamp_head(x, n);
  Lanes squares{};
  for (size_t i = 0; i < clamped.size(); ++i) {
    squares[i % kLanes] = std::fma(clamped[i], clamped[i], squares[i % kLanes]);
  }
  return quantise_head(clamped, std::sqrt(add_lanes(squares)), kInt16Steps);
}

QuantisedHead quantise_by_maximum(const float* x, int n, float steps) {
  const std::vector<float> clamped = clamp_head(x, n);
  float largest = 0;
  for (const float value : clamped) largest = std::max(largest, std::fabs(value));
  return quantise_head(clamped, largest, steps);
}

QuantisedRow quantise(const float* x, int n, int n_planes) {
  const float q_max = n_planes == 1 ? 127.0f : 32512.0f;
  QuantisedRow row;
  for (int begin = 0; begin < n; begin += kGroupLen) {
    float amax = 0;
    for (int i = 0; i < kGroupLen; ++i) amax = std::max(amax, std::fabs(x[begin + i]));
    const bool is_zero = amax == 0 || std::isinf(q_max / amax);
    const float inverse = is_zero ? 0.0f : q_max / amax;
    int32_t sum = 0;
    for (int i = 0; i < kGroupLen; ++i) {
      row.q.push_back(static_cast<int32_t>(std::nearbyint(x[begin + i] * inverse)));
      sum += row.q.back();
    }
    row.scale.push_back(is_zero ? 0.0f : clear_two_bits(amax / q_max));
    row.sum.push_back(sum);
    row.scaled_sum.push_back(row.scale.back() * static_cast<float>(sum));
  }
  return row;
}

float quantised_dot(DType type, const void* weights, const QuantisedRow& x) {
  const QuantFormat format = quant_format(type);
  const DTypeInfo& info = dtype_info(type);
  const auto* block = static_cast<const std::byte*>(weights);
  const auto n = static_cast<int>(x.q.size());
  UnpackedBlock w;
  float acc = 0;
  for (int begin = 0; begin < n; begin += format.group_len) {
    const int first = begin % info.block_len;  // element of the block
    if (first == 0) {
      unpack_block(type, block, &w);
      block += info.block_bytes;
    }
    int32_t idot = 0;
    int32_t sum = 0;
    for (int i = 0; i < format.group_len; ++i) {
      const int32_t q = x.q[static_cast<size_t>(begin + i)];
      idot += (w.q[first + i] - format.offset) * q;
      sum += q;
    }
    const int g = first / format.group_len;
    const float d_x = x.scale[static_cast<size_t>(begin / kGroupLen)];
    acc = std::fma(w.scale(format, g), d_x * static_cast<float>(idot), acc);
    if (format.has_minimum) acc = std::fma(w.minimum(format, g), d_x * static_cast<float>(sum), acc);
  }
  return acc;
}

float float_dot(DType type, const void* weights, const float* x, int n) {
  float acc = 0;
  for (size_t k = 0; k < static_cast<size_t>(n); ++k) acc = std::fma(decode_float(type, weights, k), x[k], acc);
  return acc;
}

void rms_norm(const float* x, const float* weight, int n, float eps, float* out) {
  Lanes lanes{};
  for (int i = 0; i < n; ++i) {
    float& lane = lanes[static_cast<size_t>(i % kLanes)];
    lane = std::fma(x[i], x[i], lane);
  }
  const float factor = 1.0f / std::sqrt(add_lanes(lanes) / static_cast<float>(n) + eps);
  for (int i = 0; i < n; ++i) out[i] = x[i] * factor * weight[i];
}

void layer_norm(const float* x, const float* weight, const float* bias, int n, float eps, float* out) {
  Lanes sums{};
  for (int i = 0; i < n; ++i) sums[static_cast<size_t>(i % kLanes)] += x[i];
  const float mean = add_lanes(sums) / static_cast<float>(n);
  Lanes squares{};
  for (int i = 0; i < n; ++i) {
    float& lane = squares[static_cast<size_t>(i % kLanes)];
    lane = std::fma(x[i] - mean, x[i] - mean, lane);
  }
  const float factor = 1.0f / std::sqrt(add_lanes(squares) / static_cast<float>(n) + eps);
  for (int i = 0; i < n; ++i) out[i] = std::fma((x[i] - mean) * factor, weight[i], bias[i]);
}

void activate(cpu::Activation kind, const float* gate, const float* up, int n, float* out) {
  for (int i = 0; i < n; ++i) {
    const float g = gate[i];
    const float product = up == nullptr ? g : up[i] * g;
    switch (kind) {
      case cpu::Activation::kSilu:
        out[i] = product / (1.0f + exp_f32(-g));
        break;
      case cpu::Activation::kGeluTanh:
        out[i] = product / (1.0f + exp_f32(-(g * std::fma(g * g, 0.0713548f, 1.5957691f))));
        break;
      case cpu::Activation::kGelu:
        out[i] = g > 0 ? std::fma(-product, normal_tail(g), product) : product * normal_tail(-g);
        break;
      case cpu::Activation::kRelu:
        out[i] = g <= 0 ? 0.0f : product;
        break;
    }
  }
}

float soft_cap(float x, float cap) {
  if (std::isnan(x)) return x;
  return cap - 2.0f * cap / (1.0f + exp_f32(x * (2.0f / cap)));
}

void rope(float* head, int rope_dim, const float* cos_pairs, const float* sin_pairs) {
  for (int i = 0; i < rope_dim; i += 2) {
    const float x0 = head[i];
    const float x1 = head[i + 1];
    head[i] = std::fma(x1, sin_pairs[i], x0 * cos_pairs[i]);
    head[i + 1] = std::fma(x0, sin_pairs[i + 1], x1 * cos_pairs[i + 1]);
  }
}

void attend(const AttentionHead& head, float* out) {
  float m = -std::numeric_limits<float>::infinity();
  float l = 0;
  std::vector<float> o(static_cast<size_t>(head.head_dim), 0.0f);
  for (int begin = head.first_seen / kChunkLen * kChunkLen; begin < head.n_positions; begin += kChunkLen) {
    const ChunkResult chunk = attend_chunk(head, begin, std::min(begin + kChunkLen, head.n_positions));
    const float m_new = std::max(m, chunk.m);
    const float a = exp2_f32(m - m_new);
    const float b = exp2_f32(chunk.m - m_new);
    l = std::fma(chunk.l, b, l * a);
    for (size_t d = 0; d < o.size(); ++d) o[d] = std::fma(chunk.o[d], chunk.u * b, o[d] * a);
    m = m_new;
  }
  for (size_t d = 0; d < o.size(); ++d) out[d] = o[d] / l + 0.0f;
}

}  // namespace bass::reference
