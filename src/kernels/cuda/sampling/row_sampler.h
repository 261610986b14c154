// From a row of raw logits to a distribution, by a block: RowSampler (kernels/sampling/distribution.h) with its bits.
#pragma once

#include "kernels/cuda/sampling/row_cut.h"
#include "kernels/sampling/draft_row.h"
#include "kernels/sampling/verify.h"

namespace bass::cuda {

/// Memory of the device for one row at a time.
struct RowScratch {
  float* z = nullptr;        // [n] the processed row
  float* q = nullptr;        // [n] a stored draft row, expanded
  float* spread = nullptr;   // [n] the same with an entry for each token
  uint64_t* keys = nullptr;  // [n] candidates of a cut; before that, the marks of penalties, uint32 [2, n]

  [[nodiscard]] BASS_HD uint32_t* output_marks() const { return reinterpret_cast<uint32_t*>(keys); }
};

/// p of a token (distribution.h, probability).
BASS_HD double row_probability_of(const RowDistribution& row, TokenId id) {
  const int32_t entry = entry_of(row, id);
  if (entry < 0) return 0;
  if (row.is_one_hot) return entry == row.argmax ? 1 : 0;
  const float z = row.z[entry];
  return keeps(row.kept, z, entry) ? exp_of(static_cast<double>(z) - row.log_norm) : 0;
}

/// Which sums of a row will be asked for.
struct RowWants {
  bool logprob = false;        // raw_log_sum_exp
  bool probabilities = false;  // log_norm
};

/// All threads of the block call its functions, with the same arguments, and get the same results.
template <class Context>
class BlockSampler {
 public:
  BASS_HD BlockSampler(Context& context, const RowScratch& scratch)
      : block_(context), cut_(block_), scratch_(scratch) {}
  static size_t shared_bytes() {
    SharedBytes bytes;
    RowBlock<Context>::count(bytes);
    RowCut<Context>::count(bytes);
    return bytes.bytes();
  }

  [[nodiscard]] BASS_HD RowBlock<Context>& block() { return block_; }
  /// Works in another row's memory from now on.
  BASS_HD void use(const RowScratch& scratch) { scratch_ = scratch; }

  /// RowSampler::build. z is the scratch's, or the logits. Sums that nothing asks for stay NaN: raw_log_sum_exp where
  /// no log-probability is wanted, log_norm where no probability is.
  BASS_HD RowDistribution build(const float* logits, int n, const SamplingParams& params, const TokenHistory& history,
                                RowWants wants, const ProposableTokens& tokens) {
    const bool is_scaled = !params.is_greedy() && params.temperature != 1.0f;
    const float factor = is_scaled ? 1.0f / params.temperature : 1.0f;
    float* scaled = is_scaled ? scratch_.z : nullptr;
    const bool edits = params.edits_logits() || history.allowed != nullptr;
    const RowTop raw = row_top(block_, logits, n, factor, edits ? nullptr : scaled);
    RowDistribution row;
    row.z = logits;
    row.n = n;
    row.tokens = tokens;
    row.log_norm = row.raw_log_sum_exp = __builtin_nanf("");
    if (wants.logprob && raw.is_usable) row.raw_log_sum_exp = log_sum_exp(block_, logits, n, raw.max);
    RowTop top = raw;
    if (edits) {
      apply_edits(row, params, history);
      row.z = scratch_.z;
      top = row_top(block_, row.z, n, factor, scaled);
    }
    row.argmax = top.argmax;
    row.is_degenerate = !raw.is_usable || !top.is_usable;
    row.is_one_hot = params.is_greedy() || row.is_degenerate;
    const bool is_raw = row.z == logits && !is_scaled;
    if (!row.is_one_hot) finish(params, {top.max, factor, is_raw ? row.raw_log_sum_exp : row.log_norm}, wants, &row);
    if (row.is_degenerate) row.argmax = fallback_entry(row, params, history);
    return row;
  }

  /// The token that the stream draws; left_out: an entry that counts as not kept.
  BASS_HD TokenId sample(const RowDistribution& row, const RandomStream& stream, int32_t left_out = -1) {
    if (row.is_one_hot) return row.token(row.argmax);
    const int32_t* ids = row.tokens.is_all() ? nullptr : row.tokens.ids.data();
    const int32_t entry = gumbel_argmax(block_, row.z, ids, row.n, row.kept, stream, left_out);
    return row.token(entry >= 0 ? entry : row.argmax);
  }

  /// store_draft_row: `stored` gets the row, and the scratch's q what it says. [row.n]
  BASS_HD RowDistribution store_draft_row(const RowDistribution& row, uint16_t* stored) {
    const float max = row.is_one_hot ? 0.0f : row.z[row.argmax];
    float* q = scratch_.q;
    block_.each(
        row.n, [=](int i) { return row.z[i]; },
        [=](int i, float x) {
          const float one_hot = i == row.argmax ? 0.0f : -kInf;
          const uint16_t rounded =
              round_draft_logit((row.is_one_hot ? one_hot : kept_or_nothing(row.kept, x, i)) - max);
          stored[i] = rounded;
          q[i] = expand_draft_logit(rounded);
        });
    block_.sync();
    RowDistribution rounded = row;
    rounded.z = scratch_.q;
    rounded.kept = {};
    rounded.log_norm = __builtin_nanf("");
    return rounded;
  }

  /// load_draft_row, into the scratch's q.
  BASS_HD RowDistribution load_draft_row(const uint16_t* stored, int n_q, const ProposableTokens& tokens) {
    RowDistribution row;
    float* z = scratch_.q;
    row.z = z;
    row.n = tokens.is_all() ? n_q : static_cast<int>(tokens.ids.size());
    row.tokens = tokens;
    float max = -kInf;
    block_.each(
        row.n, [=](int i) { return stored[i]; },
        [&](int i, uint16_t x) {
          z[i] = expand_draft_logit(x);
          max = max_of(z[i], max);
        });
    max = block_.reduce(max, [](float a, float b) { return max_of(a, b); });
    row.log_norm = is_finite(max) ? log_sum_exp(block_, z, row.n, max) : __builtin_nanf("");
    return row;
  }

  /// The sum over x of min(factor p(x), q(x)).
  BASS_HD double overlap_of(const RowDistribution& p, double factor, const RowDistribution& q) {
    const int32_t* ids = q.tokens.is_all() ? nullptr : q.tokens.ids.data();
    const int max_n = q.tokens.is_all() ? p.n : q.n;
    return overlap(block_, entries(p, p.n), static_cast<float>(factor), entries(q, max_n), ids);
  }

  /// The argmax of (factor p - q)+ / E; -1 where nothing is left.
  BASS_HD TokenId sample_difference(const RowDistribution& p, double factor, const RowDistribution& q,
                                    const RandomStream& stream) {
    const RowDistribution spread = spread_draft_row(q, p.n);
    return residual_argmax(block_, entries(p, p.n), static_cast<float>(factor), entries(spread, p.n), stream);
  }

 private:
  struct Scaled {
    float max;      // before
    float factor;   // of the temperature: the scratch's z has the row times this, unless it is 1
    float raw_sum;  // raw_log_sum_exp, where it is this row's too
  };
  /// What is behind the temperature: range, cuts, and the sums that are wanted.
  BASS_HD void finish(const SamplingParams& params, const Scaled& scaled, RowWants wants, RowDistribution* row) {
    const int n = row->n;
    const bool truncates = params.truncates(n);
    const float max = scaled.max * scaled.factor;
    if (params.temperature != 1.0f) {
      row->z = scratch_.z;
      row->is_degenerate = row->is_one_hot = (truncates || wants.probabilities) && !is_finite(max);
      if (row->is_degenerate) return;
    }
    float sum = scaled.raw_sum;
    const bool needs_sum = truncates ? cuts_all_by_mass(params, n) : wants.probabilities;
    if (needs_sum && sum != sum) sum = log_sum_exp(block_, row->z, n, max);
    if (truncates) row->kept = cut_.find(row->z, n, max, sum, params, scratch_.keys);
    if (!wants.probabilities) return;
    row->log_norm = truncates ? max + log_f32(kept_mass(block_, row->z, n, max, row->kept)) : sum;
  }
  BASS_HD static bool cuts_all_by_mass(const SamplingParams& params, int n) {
    return params.top_p < 1.0f && !(params.top_k > 0 && params.top_k < n);
  }

  BASS_HD static cpu::ProbabilityRow entries(const RowDistribution& row, int max_n) {
    return {row.z, row.n < max_n ? row.n : max_n, row.kept, row.log_norm};
  }

  BASS_HD RowDistribution spread_draft_row(const RowDistribution& row, int n) {
    if (row.tokens.is_all()) return row;
    for (int i = block_.thread(); i < n; i += kRowBlockThreads) scratch_.spread[i] = -kInf;
    block_.sync();
    for (int i = block_.thread(); i < row.n; i += kRowBlockThreads) scratch_.spread[row.tokens.ids[i]] = row.z[i];
    block_.sync();
    RowDistribution spread = row;
    spread.z = scratch_.spread;
    spread.n = n;
    spread.tokens = {};
    return spread;
  }

  BASS_HD void apply_edits(const RowDistribution& row, const SamplingParams& params, const TokenHistory& history) {
    float* z = scratch_.z;
    block_.each(
        row.n, [=](int i) { return row.z[i]; }, [=](int i, float x) { z[i] = x; });
    block_.sync();
    if (params.has_penalties()) apply_penalties(row, params, history);
    // Entries may come twice: the first one's thread adds them all, in their order.
    for (int i = block_.thread(); i < params.n_bias; i += kRowBlockThreads) {
      const TokenId id = params.bias[i].id;
      const int32_t at = entry_of(row, id);
      bool is_first = at >= 0;
      for (int k = 0; k < i && is_first; ++k) is_first = params.bias[k].id != id;
      for (int k = i; k < params.n_bias && is_first; ++k) {
        if (params.bias[k].id == id) z[at] += params.bias[k].bias;
      }
    }
    block_.sync();
    const std::span<const TokenId> banned = params.banned_behind(history.drafted.size());
    for (size_t i = static_cast<size_t>(block_.thread()); i < banned.size(); i += kRowBlockThreads) {
      if (is_first_ban(banned, i)) {
        if (const int32_t at = entry_of(row, banned[i]); at >= 0) z[at] = -kInf;
      }
    }
    block_.sync();
    if (history.allowed == nullptr) return;
    for (int i = block_.thread(); i < row.n; i += kRowBlockThreads) {
      if (!history.allows(row.token(i))) z[i] = -kInf;
    }
    block_.sync();
  }

  BASS_HD static bool is_first_ban(std::span<const TokenId> banned, size_t i) {
    for (size_t k = 0; k < i; ++k) {
      if (banned[k] == banned[i]) return false;
    }
    return true;
  }

  BASS_HD void mark(const RowDistribution& row, std::span<const TokenId> tokens, uint32_t* marks) {
    const auto n = static_cast<int>(tokens.size());
    for (int i = block_.thread(); i < n; i += kRowBlockThreads) {
      if (const int32_t at = entry_of(row, tokens[static_cast<size_t>(i)]); at >= 0) {
        block_.context().atomic_add(&marks[at], 1u);
      }
    }
  }

  BASS_HD void apply_penalties(const RowDistribution& row, const SamplingParams& params, const TokenHistory& history) {
    uint32_t* in_output = scratch_.output_marks();
    uint32_t* in_prompt = in_output + row.n;
    for (int i = block_.thread(); i < 2 * row.n; i += kRowBlockThreads) in_output[i] = 0;
    block_.sync();
    if (params.repetition_penalty != 1.0f) mark(row, history.prompt, in_prompt);
    mark(row, history.output, in_output);
    mark(row, history.drafted, in_output);
    block_.sync();
    for (int i = block_.thread(); i < row.n; i += kRowBlockThreads) {
      const uint32_t count = in_output[i];
      if (count == 0 && in_prompt[i] == 0) continue;
      float logit = scratch_.z[i];
      logit = logit > 0 ? logit / params.repetition_penalty : logit * params.repetition_penalty;
      if (count > 0) logit -= params.presence_penalty + params.frequency_penalty * static_cast<float>(count);
      scratch_.z[i] = logit;
    }
    block_.sync();
  }

  /// The lowest entry that is neither banned nor forbidden, 0 if all are.
  BASS_HD int32_t fallback_entry(const RowDistribution& row, const SamplingParams& params,
                                 const TokenHistory& history) {
    const std::span<const TokenId> banned = params.banned_behind(history.drafted.size());
    int32_t lowest = row.n;
    for (int32_t entry = block_.thread(); entry < row.n && lowest == row.n; entry += kRowBlockThreads) {
      bool is_out = !history.allows(row.token(entry));
      for (size_t i = 0; i < banned.size() && !is_out; ++i) is_out = banned[i] == row.token(entry);
      if (!is_out) lowest = entry;
    }
    lowest = block_.least(lowest);
    return lowest < row.n ? lowest : 0;
  }

  RowBlock<Context> block_;
  RowCut<Context> cut_;
  RowScratch scratch_;
};

}  // namespace bass::cuda
