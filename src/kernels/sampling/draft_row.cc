#include "kernels/sampling/draft_row.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace bass {
namespace {

constexpr int kBlockLen = 16;
constexpr float kInf = std::numeric_limits<float>::infinity();
// With a constant trip count, which compilers turn into vector code.
void round_block(const float* x, float max, uint16_t* stored) {
  for (int i = 0; i < kBlockLen; ++i) stored[i] = round_draft_logit(x[i] - max);
}

void expand_block(const uint16_t* stored, float* out) {
  for (int i = 0; i < kBlockLen; ++i) out[i] = expand_draft_logit(stored[i]);
}

}  // namespace

void round_draft_logits_f16(float* logits, int n, float max, uint16_t* stored) {
  int i = 0;
  for (; i + kBlockLen <= n; i += kBlockLen) round_block(logits + i, max, stored + i);
  if (i < n) {
    float padded[kBlockLen] = {};
    uint16_t halves[kBlockLen];
    std::copy(logits + i, logits + n, padded);
    round_block(padded, max, halves);
    std::copy(halves, halves + (n - i), stored + i);
  }
  expand_f16(stored, n, logits);
}

void expand_f16(const uint16_t* stored, int n, float* out) {
  int i = 0;
  for (; i + kBlockLen <= n; i += kBlockLen) expand_block(stored + i, out + i);
  if (i < n) {
    uint16_t padded[kBlockLen] = {};
    float values[kBlockLen];
    std::copy(stored + i, stored + n, padded);
    expand_block(padded, values);
    std::copy(values, values + (n - i), out + i);
  }
}

RowDistribution store_draft_row(RowSampler& sampler, const RowDistribution& row, uint16_t* stored) {
  float* z = sampler.draft_row();
  if (row.is_one_hot) {
    std::fill(z, z + row.n, -kInf);
    z[row.argmax] = 0;
  } else if (row.kept.cut_value == -kInf) {
    if (row.z != z) std::copy(row.z, row.z + row.n, z);
  } else {
    for (int i = 0; i < row.n; ++i) z[i] = row.kept.contains(row.z[i], i) ? row.z[i] : -kInf;
  }
  round_draft_logits_f16(z, row.n, row.is_one_hot ? 0.0f : row.z[row.argmax], stored);
  RowDistribution rounded = row;
  rounded.z = z;
  rounded.kept = {};
  rounded.log_norm = std::numeric_limits<float>::quiet_NaN();
  return rounded;
}

RowDistribution load_draft_row(RowSampler& sampler, const uint16_t* stored, int n_q, const ProposableTokens& tokens) {
  RowDistribution row;
  row.z = sampler.draft_row();
  row.n = tokens.is_all() ? n_q : static_cast<int>(tokens.ids.size());
  row.tokens = tokens;
  expand_f16(stored, row.n, sampler.draft_row());
  const cpu::RowStats stats = sampler.kernels().row_stats(row.z, row.n);
  row.argmax = stats.argmax;
  row.log_norm = stats.log_sum_exp;
  return row;
}

RowDistribution spread_draft_row(RowSampler& sampler, const RowDistribution& row, int n) {
  if (row.tokens.is_all()) return row;
  float* z = sampler.spread_row();
  std::fill(z, z + n, -kInf);
  for (size_t i = 0; i < row.tokens.ids.size(); ++i) z[row.tokens.ids[i]] = row.z[i];
  RowDistribution spread = row;
  spread.z = z;
  spread.n = n;
  spread.tokens = {};
  spread.argmax = row.token(row.argmax);
  return spread;
}

}  // namespace bass
