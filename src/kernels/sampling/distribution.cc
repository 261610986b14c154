#include "kernels/sampling/distribution.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "kernels/sampling/row_math.h"

namespace bass {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr uint32_t kInPrompt = 1u << 31;
constexpr int kCollectLen = 32;

bool edits_logits(const SamplingParams& params, const TokenHistory& history) {
  return params.edits_logits() || history.allowed != nullptr;
}

bool is_usable(const cpu::RowStats& stats) { return std::isfinite(stats.max) && std::isfinite(stats.log_sum_exp); }

}  // namespace

double probability(const RowDistribution& row, TokenId id) {
  const int32_t entry = entry_of(row, id);
  if (entry < 0) return 0;
  if (row.is_one_hot) return entry == row.argmax ? 1 : 0;
  BASS_CHECK(!std::isnan(row.log_norm));
  const float z = row.z[entry];
  return row.kept.contains(z, entry) ? exp_of(static_cast<double>(z) - row.log_norm) : 0;
}

TokenId sample(const cpu::Kernels& kernels, const RowDistribution& row, const RandomStream& stream) {
  if (row.is_one_hot) return row.token(row.argmax);
  const int32_t entry = row.tokens.is_all()
                            ? kernels.gumbel_argmax(row.z, row.n, row.kept, stream)
                            : kernels.gumbel_argmax_of(row.z, row.tokens.ids.data(), row.n, row.kept, stream);
  return row.token(entry >= 0 ? entry : row.argmax);
}

float draft_confidence(const float* logits, const RowDistribution& row) {
  const float confidence = std::exp(logits[row.argmax] - row.allowed_log_sum_exp);
  return confidence <= 1.0f ? confidence : 1.0f;  // also of what is no number: such a row is one-hot
}

float raw_logprob(const float* logits, const RowDistribution& row, TokenId token) {
  return logits[token] - row.raw_log_sum_exp;
}

RowSampler::RowSampler(const cpu::Kernels* kernels, int n_vocab)
    : kernels_(kernels),
      z_(static_cast<size_t>(n_vocab)),
      draft_row_(static_cast<size_t>(n_vocab)),
      spread_row_(static_cast<size_t>(n_vocab)),
      marks_(static_cast<size_t>(n_vocab), 0) {
  candidates_.reserve(static_cast<size_t>(n_vocab));
  marked_.reserve(static_cast<size_t>(n_vocab));
}

RowDistribution RowSampler::build(const float* logits, int n, const SamplingParams& params, const TokenHistory& history,
                                  Normalise normalise, const ProposableTokens& tokens) {
  BASS_CHECK(n >= 1 && static_cast<size_t>(n) <= z_.size());
  const cpu::RowStats raw = kernels_->row_stats(logits, n);
  RowDistribution row;
  row.z = logits;
  row.n = n;
  row.tokens = tokens;
  row.log_norm = std::numeric_limits<float>::quiet_NaN();
  row.raw_log_sum_exp = row.allowed_log_sum_exp = raw.log_sum_exp;

  cpu::RowStats stats = raw;  // of row.z
  if (edits_logits(params, history)) {
    apply_edits(row, params, history);
    row.z = z_.data();
    stats = kernels_->row_stats(row.z, n);
    if (history.allowed != nullptr) row.allowed_log_sum_exp = stats.log_sum_exp;
  }
  row.argmax = stats.argmax;
  row.is_degenerate = !is_usable(raw) || !is_usable(stats);
  row.is_one_hot = params.is_greedy() || row.is_degenerate;
  if (row.is_degenerate) row.argmax = fallback_entry(row, params, history);
  if (row.is_one_hot) return row;

  const bool truncates = params.truncates(n);
  if (params.temperature != 1.0f) {
    kernels_->scale(row.z, 1.0f / params.temperature, n, z_.data());
    row.z = z_.data();
    if (truncates || normalise == Normalise::kYes) stats = kernels_->row_stats(row.z, n);
    if (!is_usable(stats)) {  // the temperature took finite logits out of range
      row.is_degenerate = row.is_one_hot = true;
      row.argmax = fallback_entry(row, params, history);
      return row;
    }
  }
  row.log_norm = stats.log_sum_exp;
  if (!truncates) {
    if (normalise == Normalise::kNo) row.log_norm = std::numeric_limits<float>::quiet_NaN();
    return row;
  }
  row.kept = truncate(row.z, n, stats.max, stats.log_sum_exp, params);
  row.log_norm = stats.max + log_of(kernels_->kept_mass(row.z, n, stats.max, row.kept));
  return row;
}

RowDistribution RowSampler::restore(const RowDistribution& row, const float* logits, const SamplingParams& params,
                                    const TokenHistory& history) {
  RowDistribution restored = row;
  restored.z = logits;
  if (edits_logits(params, history)) {
    apply_edits(restored, params, history);
    restored.z = z_.data();
  }
  if (row.is_one_hot || params.temperature == 1.0f) return restored;
  kernels_->scale(restored.z, 1.0f / params.temperature, row.n, z_.data());
  restored.z = z_.data();
  return restored;
}

RowDistribution RowSampler::without_token(const RowDistribution& row, TokenId token) {
  RowDistribution rest = row;
  if (row.z != z_.data()) std::copy(row.z, row.z + row.n, z_.data());
  z_[static_cast<size_t>(token)] = -kInf;
  rest.z = z_.data();
  return rest;
}

void RowSampler::apply_edits(const RowDistribution& row, const SamplingParams& params, const TokenHistory& history) {
  std::copy(row.z, row.z + row.n, z_.data());
  if (params.has_penalties()) apply_penalties(row, params, history);
  for (int i = 0; i < params.n_bias; ++i) {
    const LogitBias& entry = params.bias[i];
    if (const int32_t at = entry_of(row, entry.id); at >= 0) z_[static_cast<size_t>(at)] += entry.bias;
  }
  for (const TokenId id : params.banned_behind(history.drafted.size())) {
    if (const int32_t at = entry_of(row, id); at >= 0) z_[static_cast<size_t>(at)] = -kInf;
  }
  if (history.allowed != nullptr) forbid(row, history);
}

// Most words of a mask are all zeros or all ones.
void RowSampler::forbid(const RowDistribution& row, const TokenHistory& history) {
  constexpr int32_t kWordBits = 32;
  for (int32_t begin = 0; begin < row.n; begin += kWordBits) {
    const int32_t end = std::min(begin + kWordBits, row.n);
    const uint32_t word = row.tokens.is_all() ? history.allowed[begin / kWordBits] : 1;
    if (word == ~0u) continue;
    if (word == 0) {
      std::fill(z_.begin() + begin, z_.begin() + end, -kInf);
      continue;
    }
    for (int32_t at = begin; at < end; ++at) {
      if (!history.allows(row.token(at))) z_[static_cast<size_t>(at)] = -kInf;
    }
  }
}

void RowSampler::apply_penalties(const RowDistribution& row, const SamplingParams& params,
                                 const TokenHistory& history) {
  const auto mark = [&](TokenId id, uint32_t flag) {
    const int32_t at = entry_of(row, id);
    if (at < 0) return;  // a draft model's vocabulary may be smaller than the main one's
    uint32_t& marks = marks_[static_cast<size_t>(at)];
    if (marks == 0) marked_.push_back(at);
    marks = flag == kInPrompt ? marks | flag : marks + flag;
  };
  if (params.repetition_penalty != 1.0f) {
    for (const TokenId id : history.prompt) mark(id, kInPrompt);
  }
  for (const TokenId id : history.output) mark(id, 1);
  for (const TokenId id : history.drafted) mark(id, 1);
  for (const int32_t at : marked_) {
    float& logit = z_[static_cast<size_t>(at)];
    logit = logit > 0 ? logit / params.repetition_penalty : logit * params.repetition_penalty;
    uint32_t& marks = marks_[static_cast<size_t>(at)];
    const uint32_t count = marks & ~kInPrompt;
    if (count > 0) logit -= params.presence_penalty + params.frequency_penalty * static_cast<float>(count);
    marks = 0;
  }
  marked_.clear();
}

float RowSampler::log_of(float x) const {
  float result;
  kernels_->log(&x, 1, &result);
  return result;
}

cpu::KeptSet RowSampler::truncate(const float* z, int n, float max_z, float log_sum_exp, const SamplingParams& params) {
  cpu::KeptSet kept;
  if (params.top_k > 0 && params.top_k < n) {
    kept = cut_by_rank(z, n, max_z, params.top_k);  // leaves exactly the kept ones in candidates_
    if (params.top_p < 1.0f) {
      uint64_t total = 0;
      for (const Candidate& candidate : candidates_) total += mass_of(candidate.z, max_z);
      kept = smaller_of(kept, split_candidates_by_mass(max_z, params.top_p * static_cast<double>(total)));
    }
  } else if (params.top_p < 1.0f) {
    kept = cut_by_mass(z, n, max_z, params.top_p * (exp_of(static_cast<double>(log_sum_exp) - max_z) * kMassUnits));
  }
  if (params.min_p > 0.0f) {
    const float cut = max_z + log_of(params.min_p);
    kept = smaller_of(kept, {cut, std::numeric_limits<TokenId>::max()});
  }
  return kept;
}

// The tokens within a distance of the maximum are a front of the order, so once they are enough the cut is among them.
cpu::KeptSet RowSampler::cut_by_rank(const float* z, int n, float max_z, int top_k) {
  const auto k = static_cast<size_t>(top_k);
  for (float delta = kInitialDelta;; delta = wider_delta(delta)) {
    collect(z, n, max_z - delta);
    if (candidates_.size() >= k || !std::isfinite(delta)) break;
  }
  if (candidates_.size() < k) return {};  // fewer finite logits than k: all of them are kept
  std::nth_element(candidates_.begin(), candidates_.begin() + (top_k - 1), candidates_.end(), comes_first);
  candidates_.resize(k);
  return {candidates_.back().z, candidates_.back().id};
}

std::span<const RowSampler::Candidate> RowSampler::largest(const float* logits, int n, float max_logit, int n_top) {
  cut_by_rank(logits, n, max_logit, std::min(n_top, n));
  std::ranges::sort(candidates_, comes_first);
  return candidates_;
}

cpu::KeptSet RowSampler::cut_by_mass(const float* z, int n, float max_z, double mass) {
  for (float delta = kInitialDelta;; delta = wider_delta(delta)) {
    collect(z, n, max_z - delta);
    uint64_t collected = 0;
    for (const Candidate& candidate : candidates_) collected += mass_of(candidate.z, max_z);
    if (static_cast<double>(collected) >= mass) return split_candidates_by_mass(max_z, mass);
    if (!std::isfinite(delta)) return {};  // the whole row, which a rounded total may exceed
  }
}

/// candidates_ = the tokens with z >= lowest (finite ones only), in ascending order of ids.
void RowSampler::collect(const float* z, int n, float lowest) {
  const float bound = std::max(lowest, std::numeric_limits<float>::lowest());
  candidates_.clear();
  for (int begin = 0; begin < n; begin += kCollectLen) {
    // Nearly all stretches have none. The constant count lets the compiler compare whole vectors.
    if (begin + kCollectLen <= n) {
      int n_found = 0;
      for (int i = 0; i < kCollectLen; ++i) n_found += z[begin + i] >= bound ? 1 : 0;
      if (n_found == 0) continue;
    }
    for (int i = begin; i < std::min(n, begin + kCollectLen); ++i) {
      if (z[i] >= bound) candidates_.push_back({z[i], i});
    }
  }
}

// Selection instead of sorting: halves the range in which the cut lies, each time ordering only around its middle.
cpu::KeptSet RowSampler::split_candidates_by_mass(float max_z, double mass) {
  size_t begin = 0, end = candidates_.size();  // the cut is the last token of a front of length begin + 1 .. end
  uint64_t mass_before = 0;                    // of candidates_[0 .. begin)
  while (end - begin > 1) {
    const size_t middle = begin + (end - begin) / 2;
    const auto first = candidates_.begin();
    std::nth_element(first + static_cast<ptrdiff_t>(begin), first + static_cast<ptrdiff_t>(middle),
                     first + static_cast<ptrdiff_t>(end), comes_first);
    uint64_t front = mass_before;
    for (size_t i = begin; i < middle; ++i) front += mass_of(candidates_[i].z, max_z);
    if (static_cast<double>(front) >= mass) {
      end = middle;
    } else {
      begin = middle;
      mass_before = front;
    }
  }
  return {candidates_[begin].z, candidates_[begin].id};
}

int32_t RowSampler::fallback_entry(const RowDistribution& row, const SamplingParams& params,
                                   const TokenHistory& history) {
  for (const TokenId id : params.banned_behind(history.drafted.size())) {
    if (const int32_t at = entry_of(row, id); at >= 0) marks_[static_cast<size_t>(at)] = 1;
  }
  int32_t lowest = 0;
  while (lowest < row.n && (marks_[static_cast<size_t>(lowest)] != 0 || !history.allows(row.token(lowest)))) ++lowest;
  std::fill(marks_.begin(), marks_.end(), 0u);
  return lowest < row.n ? lowest : 0;
}

}  // namespace bass
