// From a row of raw logits to the distribution that is sampled from, after every processor of the request.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/philox.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cuda/host_device.h"
#include "kernels/sampling/sampling_params.h"

namespace bass {

/// What a draft can propose, as ids of the main model: all tokens, or a vocabulary and tokens beside it.
struct ProposableTokens {
  std::span<const TokenId> ids;  // the vocabulary, ascending, and then the others, ascending; no id twice. Empty: all
  size_t n_vocabulary = 0;

  [[nodiscard]] BASS_HD bool is_all() const { return ids.empty(); }
};

/// One position's distribution: p_i = exp(z_i - log_norm) for kept i, 0 for others; or all mass on one token.
/// Does not own z: it is the row of raw logits or the sampler's scratch, and valid until either changes.
///
/// Entry i of a row is token i, or, of a draft that cannot propose all, token tokens.ids[i]. `kept` and `argmax` speak
/// of entries.
struct RowDistribution {
  const float* z = nullptr;  // [n] processed logits divided by the temperature
  int n = 0;
  ProposableTokens tokens;  // [n]
  cpu::KeptSet kept;
  float log_norm = 0;             // NaN where it was not asked for (Normalise::kNo)
  int32_t argmax = 0;             // of the processed row; lowest of equal ones
  bool is_one_hot = false;        // greedy, or degenerate: all mass on argmax
  bool is_degenerate = false;     // NaN or infinite logits, or no token left: see RowSampler::build
  float raw_log_sum_exp = 0;      // of the raw logits
  float allowed_log_sum_exp = 0;  // the same, where a grammar allows a part: of that part, as processors left it

  [[nodiscard]] BASS_HD TokenId token(int32_t entry) const {
    return tokens.is_all() ? entry : tokens.ids[static_cast<size_t>(entry)];
  }
};

/// Whether probability() will be asked. Drawing a sample needs no normalisation.
enum class Normalise { kNo, kYes };

/// Where a token stands in a row; -1 if it does not.
BASS_HD int32_t entry_of(const RowDistribution& row, TokenId id) {
  if (row.tokens.is_all()) return id < row.n && id >= 0 ? id : -1;
  const TokenId* ids = row.tokens.ids.data();
  const auto n_vocabulary = static_cast<int32_t>(row.tokens.n_vocabulary);
  for (int part = 0; part < 2; ++part) {
    int32_t low = part == 0 ? 0 : n_vocabulary;
    const int32_t end = part == 0 ? n_vocabulary : static_cast<int32_t>(row.tokens.ids.size());
    for (int32_t high = end; low < high;) {
      const int32_t middle = low + (high - low) / 2;
      if (ids[middle] < id) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    if (low < end && ids[low] == id) return low;
  }
  return -1;
}

/// p of a token; 0 for those that the row lacks.
double probability(const RowDistribution& row, TokenId id);

/// The token that this stream draws: argmax of z + Gumbel noise over the kept tokens.
TokenId sample(const cpu::Kernels& kernels, const RowDistribution& row, const RandomStream& stream);

/// The raw probability (temperature 1, before processors) that a draft gives to its best token, among those that a
/// grammar allows: what its row says of its chance before any token is drawn from it. logits: [row.n] raw, which `row`
/// was built from.
float draft_confidence(const float* logits, const RowDistribution& row);

/// Natural log of the model's raw probability (temperature 1, before processors) of a token.
/// logits: [n] raw
float raw_logprob(const float* logits, const RowDistribution& row, TokenId token);

/// Builds distributions in its own scratch memory; nothing is allocated after construction. One for each thread.
class RowSampler {
 public:
  struct Candidate {
    float z;
    TokenId id;  // the row's entry
  };

  /// n_vocab: the longest row that will come.
  RowSampler(const cpu::Kernels* kernels, int n_vocab);

  /// The distribution of a row. Without an active processor it reads the logits where they lie. Valid until the next
  /// call of build or without_token.
  ///
  /// A row whose logits contain NaN or +inf, or of which no finite logit is left, gives a one-hot row at the lowest id
  /// that is neither banned nor forbidden by a grammar (0 if all are) with is_degenerate set; it never crashes. The
  /// engine ends such a sequence. tokens: the row's n entries, if they are not the tokens 0 .. n - 1.
  RowDistribution build(const float* logits, int n, const SamplingParams& params, const TokenHistory& history,
                        Normalise normalise, const ProposableTokens& tokens = {});

  /// A distribution that `build` gave before for the same logits and history, whose z something else has taken the
  /// place of since: without looking at the row's sums again. It is then the last row that the sampler built.
  RowDistribution restore(const RowDistribution& row, const float* logits, const SamplingParams& params,
                          const TokenHistory& history);

  /// The distribution `row` with one token taken out, not renormalised (log_norm is kept): for sampling only. `row`
  /// must be the last one that build gave; it becomes invalid.
  RowDistribution without_token(const RowDistribution& row, TokenId token);

  /// The entries with z >= lowest (finite ones only), ascending, kept or not. Valid until the next call of this or of
  /// build.
  std::span<const Candidate> entries_above(const RowDistribution& row, float lowest) {
    collect(row.z, row.n, lowest);
    return candidates_;
  }

  /// The n_top entries of a row with the largest logits, these first and of equal ones those of lower ids; fewer if no
  /// more are finite. max_logit: of the row. Valid until the next call of this, entries_above or build.
  std::span<const Candidate> largest(const float* logits, int n, float max_logit, int n_top);

  /// Scratch for a row of draft logits. [n_vocab]
  [[nodiscard]] float* draft_row() { return draft_row_.data(); }
  /// Scratch for the same row with an entry for each token. [n_vocab]
  [[nodiscard]] float* spread_row() { return spread_row_.data(); }
  [[nodiscard]] const cpu::Kernels& kernels() const { return *kernels_; }

 private:
  void apply_edits(const RowDistribution& row, const SamplingParams& params, const TokenHistory& history);
  void forbid(const RowDistribution& row, const TokenHistory& history);
  void apply_penalties(const RowDistribution& row, const SamplingParams& params, const TokenHistory& history);
  [[nodiscard]] float log_of(float x) const;  // the kernels', the same on every device
  cpu::KeptSet truncate(const float* z, int n, float max_z, float log_sum_exp, const SamplingParams& params);
  cpu::KeptSet cut_by_rank(const float* z, int n, float max_z, int top_k);
  cpu::KeptSet cut_by_mass(const float* z, int n, float max_z, double mass);  // in units of row_math.h
  void collect(const float* z, int n, float lowest);
  cpu::KeptSet split_candidates_by_mass(float max_z, double mass);
  int32_t fallback_entry(const RowDistribution& row, const SamplingParams& params, const TokenHistory& history);

  static bool comes_first(const Candidate& a, const Candidate& b) { return a.z > b.z || (a.z == b.z && a.id < b.id); }

  const cpu::Kernels* kernels_;
  std::vector<float> z_;               // [n_vocab] processed row
  std::vector<float> draft_row_;       // [n_vocab]
  std::vector<float> spread_row_;      // [n_vocab]
  std::vector<Candidate> candidates_;  // capacity n_vocab
  std::vector<uint32_t> marks_;        // [n_vocab] by entry: count in output and drafts, kInPrompt; all 0 between calls
  std::vector<int32_t> marked_;        // capacity n_vocab: entries whose mark is not 0
};

}  // namespace bass
