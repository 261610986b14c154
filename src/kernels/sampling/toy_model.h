// For the tests of verification: tiny models whose every number is known, and what a round of speculation does with
// them. toy_decoder.h runs rounds through the real functions and random numbers, toy_enumerator.h walks through
// everything that they may do.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "kernels/sampling/draft_row.h"
#include "kernels/sampling/verify.h"

namespace bass::testing {

using Tokens = std::vector<TokenId>;

/// Logits that depend on the whole prefix: fixed pseudo-random numbers of (model, token) and of (model, prefix, token).
struct ToyModel {
  int n_vocab = 4;
  uint64_t id = 0;
  double spread = 2.5;             // of the part that depends on the token only
  double context_spread = 1.5;     // of the part that depends on the prefix
  std::vector<double> everywhere;  // where set: the probabilities behind every prefix

  [[nodiscard]] std::vector<float> logits(const Tokens& prefix) const {
    std::vector<float> row;
    if (!everywhere.empty()) {
      for (const double p : everywhere) row.push_back(static_cast<float>(std::log(p)));
      return row;
    }
    uint32_t code = 0;
    for (const TokenId token : prefix) code = code * 31 + static_cast<uint32_t>(token) + 1;
    for (uint32_t token = 0; token < static_cast<uint32_t>(n_vocab); ++token) {
      const double fixed = uniform_open(philox4x32({token, 0, 0, 1}, id)[0]);
      const double contextual = uniform_open(philox4x32({token, code, 0, 2}, id)[0]);
      row.push_back(static_cast<float>(spread * fixed + context_spread * contextual));
    }
    return row;
  }
};

/// What is wrong with a decoder. Everything but the first two must be found by the tests.
enum class Fault {
  kNone,                  // the real functions
  kNoneWrittenOut,        // the rule as toy_decoder.h has it, without a fault
  kSharedNoise,           // the residual is drawn with the draft's noise
  kPositionOnlyNoise,     // draft, acceptance and residual do not depend on the round's start
  kResidualFromMain,      // a sample of p instead of one of the residual
  kDropUnlikelyDrafts,    // a sampled draft token of low q, and what follows it, is not verified
  kTakeUnverified,        // drafted tokens are emitted without looking at them
  kResidualOfRejection,   // `block` with the residual (p - q)+
  kStopAtFirstRejection,  // `block` ends its walk at the first u_i >= h_i
  kBonusFromRowBefore,    // the extra token is drawn from the row of the last drafted token
};

enum class DraftKind { kModel, kOneHot };

/// What a draft-length policy may look at before a round.
struct PolicyView {
  int n_accepted = 0;          // in the round before; -1 before the first
  TokenId earlier_draft = -1;  // the token that some earlier round drafted at the position where this one starts
};
using LengthPolicy = std::function<int(const PolicyView&)>;

inline LengthPolicy fixed_length(int len) {
  return [len](const PolicyView&) { return len; };
}

struct ToySetup {
  ToyModel main;
  ToyModel draft;
  SamplingParams params;
  LengthPolicy length = fixed_length(0);
  DraftKind draft_kind = DraftKind::kModel;
  Fault fault = Fault::kNone;
};

/// The rows of a setup. The row that build gave last is the one that is valid.
class ToyRows {
 public:
  ToyRows(const cpu::Kernels* kernels, ToySetup setup)
      : setup_(std::move(setup)),
        sampler_(kernels, std::max(setup_.main.n_vocab, setup_.draft.n_vocab)),
        params_(setup_.params) {}

  [[nodiscard]] size_t index_of(const Tokens& text) const {
    size_t index = 0;
    for (const TokenId token : text) {
      index = index * static_cast<size_t>(setup_.main.n_vocab) + static_cast<size_t>(token);
    }
    return index;
  }

 protected:
  static constexpr double kUnlikely = 0.3;

  RowDistribution main_row(const std::vector<float>& logits, const Tokens& prefix) {
    return sampler_.build(logits.data(), setup_.main.n_vocab, params_, {{}, prefix, {}}, Normalise::kYes);
  }

  std::vector<uint16_t> draft_row(const Tokens& prefix) {
    const std::vector<float> logits = setup_.draft.logits(prefix);
    std::vector<uint16_t> stored(logits.size());
    const RowDistribution row =
        sampler_.build(logits.data(), setup_.draft.n_vocab, params_, {{}, prefix, {}}, Normalise::kNo);
    store_draft_row(sampler_, row, stored.data());
    return stored;
  }

  // An n-gram drafter's part: any function of the text.
  [[nodiscard]] TokenId one_hot_draft(const Tokens& prefix) const {
    const std::vector<float> logits = setup_.draft.logits(prefix);
    return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }

  [[nodiscard]] bool is_block() const { return setup_.params.rule == VerifyRule::kBlock; }

  ToySetup setup_;
  RowSampler sampler_;
  SamplingParams params_;
};

inline Tokens followed_by(Tokens text, size_t token) {
  text.push_back(static_cast<TokenId>(token));
  return text;
}

}  // namespace bass::testing
