#include "kernels/sampling/agreement.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace bass {
namespace {

constexpr int kLanes = 16;
constexpr float kInf = std::numeric_limits<float>::infinity();

// Of a row that was built with Normalise::kNo; no number if its sum is none.
float log_norm_of(const cpu::Kernels& kernels, const RowDistribution& row, const float* logits) {
  if (!std::isnan(row.log_norm)) return row.log_norm;
  return row.z == logits ? row.raw_log_sum_exp : kernels.row_stats(row.z, row.n).log_sum_exp;
}

/// p and q of the tokens that are taken apart; zeros behind them, up to whole lanes.
struct Apart {
  alignas(64) std::array<float, kMaxLikelyTokens> p{};
  alignas(64) std::array<float, kMaxLikelyTokens> q{};
  int n = 0;

  // The sum over these tokens y of max(p_y q_x, q_y p_x).
  [[nodiscard]] float sum_of_larger(float p_x, float q_x) const {
    float sums[kLanes] = {};
    for (int begin = 0; begin < n; begin += kLanes) {
      for (int lane = 0; lane < kLanes; ++lane) {
        const float a = p[static_cast<size_t>(begin + lane)] * q_x;
        const float b = q[static_cast<size_t>(begin + lane)] * p_x;
        sums[lane] += a > b ? a : b;
      }
    }
    for (int half = kLanes / 2; half > 0; half /= 2) {
      for (int lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
    }
    return sums[0];
  }
};

float rest_of(const std::array<float, kMaxLikelyTokens>& apart) {
  float sum = 0;
  for (const float x : apart) sum += x;
  return std::max(0.0f, 1 - sum);
}

AgreementBounds bounds_of(const Apart& apart) {
  const float p_rest = rest_of(apart.p), q_rest = rest_of(apart.q);
  AgreementBounds bounds;
  for (int x = 0; x < apart.n; ++x) {
    const float p_x = apart.p[static_cast<size_t>(x)], q_x = apart.q[static_cast<size_t>(x)];
    const float both = p_x * q_x;
    if (both == 0) continue;
    const float sum = apart.sum_of_larger(p_x, q_x);
    bounds.low += both / (sum + p_rest * q_x + q_rest * p_x);
    bounds.high += both / (sum + std::max(p_rest * q_x, q_rest * p_x));
  }
  const float both = p_rest * q_rest;
  if (both > 0) bounds.high += both / (apart.sum_of_larger(p_rest, q_rest) + both);
  return bounds;
}

}  // namespace

int likely_tokens(RowSampler& sampler, const RowDistribution& q, const float* logits, LikelyToken* out) {
  if (q.is_one_hot) {
    out[0] = {q.token(q.argmax), 1.0f};
    return 1;
  }
  const float log_norm = log_norm_of(sampler.kernels(), q, logits);
  const float lowest = log_norm - std::log(static_cast<float>(kMaxLikelyTokens));
  std::array<float, kMaxLikelyTokens> log_q;
  int n = 0;
  for (const RowSampler::Candidate& candidate : sampler.entries_above(q, lowest)) {
    if (n == kMaxLikelyTokens) break;  // by rounding
    if (!q.kept.contains(candidate.z, candidate.id)) continue;
    out[n].token = q.token(candidate.id);
    log_q[static_cast<size_t>(n++)] = candidate.z - log_norm;
  }
  std::array<float, kMaxLikelyTokens> probabilities;
  sampler.kernels().exp(log_q.data(), n, probabilities.data());
  for (int i = 0; i < n; ++i) out[i].q = probabilities[static_cast<size_t>(i)];
  return n;
}

std::optional<AgreementBounds> agreement_chance(const RowSampler& sampler, const RowDistribution& p,
                                                const float* logits, std::span<const LikelyToken> likely) {
  BASS_CHECK(likely.size() <= kMaxLikelyTokens);
  if (p.is_one_hot) return std::nullopt;
  const float log_norm = log_norm_of(sampler.kernels(), p, logits);
  if (!std::isfinite(log_norm)) return std::nullopt;
  Apart apart;
  apart.n = static_cast<int>(likely.size());
  for (size_t i = 0; i < likely.size(); ++i) {
    const TokenId id = likely[i].token;
    const bool has = id >= 0 && id < p.n && p.kept.contains(p.z[id], id);
    apart.p[i] = has ? p.z[id] - log_norm : -kInf;
    apart.q[i] = likely[i].q;
  }
  sampler.kernels().exp(apart.p.data(), apart.n, apart.p.data());
  return bounds_of(apart);
}

}  // namespace bass
