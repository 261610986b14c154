// For the tests of verification: tiny models whose every number is known, and what a round of speculation does with
// them. toy_decoder.h runs rounds through the real functions and random numbers, toy_enumerator.h walks through
// everything that they may do.
#pragma once

#include <algorithm>
#include <cmath>
#include <compare>
#include <functional>
#include <map>
#include <optional>
#include <span>
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

/// A model's logits, of which each row is made once: thousands of texts of a few tokens have the same prefixes.
class ToyLogits {
 public:
  [[nodiscard]] const std::vector<float>& behind(const ToyModel& model, const Tokens& prefix) {
    std::vector<float>& row = rows_[prefix];
    if (row.empty()) row = model.logits(prefix);
    return row;
  }

 private:
  std::map<Tokens, std::vector<float>> rows_;
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
  kEndLooksAtToken,       // the draft's own end takes the drawn token's q for the confidence of its place
  kLookIsTaken,           // what was drafted to be looked at is emitted
};

/// kMixed: some positions of a round are one-hot and others are not, by the text in front of them.
enum class DraftKind { kModel, kOneHot, kMixed };

/// Whether a model's draft goes on at a place whose token is not drawn yet.
enum class DraftEnd { kNotYet, kInFront, kBehind };

/// By the confidences of the round's places so far, this one's last.
using EndRule = std::function<DraftEnd(std::span<const float> confidences)>;

/// What a device says of a drafted token that was looked at (executor/step_plan.h, SegmentResult::labels): its chance
/// to be accepted, before it was drawn, if all before it are, and the chance of that.
struct ToyLabel {
  float chance = 0;
  float weight = 0;
  auto operator<=>(const ToyLabel&) const = default;
};

/// What a policy hears of a round when it is over.
struct ToyRound {
  int n_drafted = 0;
  int n_accepted = 0;
  DraftKind kind = DraftKind::kModel;
  int source = 0;                  // as the policy has named it
  std::vector<ToyLabel> labels;    // where the setup asks for them
  std::vector<float> confidences;  // of the places that a draft with an end of its own has come to, the dropped one too
  bool is_look = false;            // n_drafted is 1, nothing was verified; n_accepted: it is the token that came
  auto operator<=>(const ToyRound&) const = default;
};

/// What a draft-length policy may look at before a round.
struct PolicyView {
  int n_accepted = 0;          // in the round before; -1 before the first
  TokenId earlier_draft = -1;  // the token that some earlier round drafted at the position where this one starts
  std::span<const TokenId> text = {};
  std::span<const ToyRound> rounds = {};  // all before
};

/// What a policy wants of a round.
struct DraftChoice {
  int len = 0;
  std::optional<DraftKind> kind = {};  // none: the setup's
  int source = 0;                      // comes back in ToyRound
  EndRule ends = {};                   // where the draft ends before `len` tokens; none: nowhere
  bool is_look = false;                // one token is drafted, and compared with the regular one: SegmentPlan::is_look
  DraftChoice(int n) : len(n) {}       // NOLINT(google-explicit-constructor): most policies say nothing else
  DraftChoice(int n, DraftKind drafter, int name, EndRule rule = {})
      : len(n), kind(drafter), source(name), ends(std::move(rule)) {}
};
using LengthPolicy = std::function<DraftChoice(const PolicyView&)>;

inline LengthPolicy fixed_length(int len) {
  return [len](const PolicyView&) { return len; };
}

/// A token that has just been drafted, for rules that end a draft in the middle of a round.
struct DraftView {
  size_t k = 0;  // of the round's drafts
  bool is_one_hot = false;
  TokenId token = 0;               // looking at it is forbidden, unless it is one-hot
  double q_token = 0;              // so is this
  double q_max = 0, q_second = 0;  // of its distribution: known before it was drawn
};

struct ToySetup {
  ToyModel main;
  ToyModel draft;
  SamplingParams params;
  LengthPolicy length = fixed_length(0);
  DraftKind draft_kind = DraftKind::kModel;
  bool tells_labels = false;  // policies hear them: the enumeration walks through more
  /// How many of the round's last drafted tokens are thrown away unverified, this one first; then the draft ends. 0: it
  /// goes on.
  std::function<size_t(const DraftView&)> n_thrown_away;
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

  [[nodiscard]] const std::vector<float>& main_logits(const Tokens& prefix) {
    return main_logits_.behind(setup_.main, prefix);
  }

  RowDistribution main_row(const std::vector<float>& logits, const Tokens& prefix) {
    return sampler_.build(logits.data(), setup_.main.n_vocab, params_, {{}, prefix, {}}, Normalise::kYes);
  }

  /// What a draft model says of a place before its token is drawn.
  struct DraftRow {
    std::vector<uint16_t> stored;
    float confidence = 1;  // as sure as a certain draft
  };

  DraftRow draft_row(const Tokens& prefix) {
    const std::vector<float>& logits = draft_logits_.behind(setup_.draft, prefix);
    DraftRow draft{std::vector<uint16_t>(logits.size())};
    const RowDistribution row =
        sampler_.build(logits.data(), setup_.draft.n_vocab, params_, {{}, prefix, {}}, Normalise::kNo);
    draft.confidence = draft_confidence(logits.data(), row);
    store_draft_row(sampler_, row, draft.stored.data());
    return draft;
  }

  // Whether the draft ends at its last place. q_token: of the token that was drawn there, at which only a fault looks
  [[nodiscard]] DraftEnd end_of(const DraftChoice& choice, std::vector<float> confidences, double q_token) const {
    if (!choice.ends) return DraftEnd::kNotYet;
    if (setup_.fault == Fault::kEndLooksAtToken) confidences.back() = static_cast<float>(q_token);
    return choice.ends(confidences);
  }

  // An n-gram drafter's part: any function of the text.
  [[nodiscard]] TokenId one_hot_draft(const Tokens& prefix) {
    const std::vector<float>& logits = draft_logits_.behind(setup_.draft, prefix);
    return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }

  // Whether the draft of a round's position is one-hot: known before it is drawn.
  [[nodiscard]] static bool is_one_hot(DraftKind kind, const Tokens& prefix) {
    if (kind != DraftKind::kMixed) return kind == DraftKind::kOneHot;
    size_t sum = prefix.size();
    for (const TokenId token : prefix) sum += static_cast<size_t>(token);
    return sum % 2 == 0;
  }

  [[nodiscard]] DraftKind kind_of(const DraftChoice& choice) const { return choice.kind.value_or(setup_.draft_kind); }

  [[nodiscard]] size_t n_thrown_away(const DraftView& draft) const {
    if (setup_.fault == Fault::kDropUnlikelyDrafts && !draft.is_one_hot && draft.q_token < kUnlikely) return 1;
    return setup_.n_thrown_away ? setup_.n_thrown_away(draft) : 0;
  }

  // q: as loaded
  DraftView view_of(size_t k, TokenId token, const RowDistribution& q) const {
    DraftView view{k, false, token, probability(q, token)};
    for (TokenId x = 0; x < setup_.draft.n_vocab; ++x) {
      view.q_second = std::max(view.q_second, std::min(view.q_max, probability(q, x)));
      view.q_max = std::max(view.q_max, probability(q, x));
    }
    return view;
  }

  // As the executor does: of the tokens that verification has looked at. chances: of all drafted tokens; joints: p_i
  // behind each of them, for `block`
  [[nodiscard]] std::vector<ToyLabel> labels_of(const std::vector<float>& chances, const std::vector<double>& joints,
                                                int n_accepted) const {
    std::vector<ToyLabel> labels;
    if (!setup_.tells_labels) return labels;
    double weight = 1;
    for (size_t k = 0; k < chances.size() && weight > 0; ++k) {
      labels.push_back({chances[k], static_cast<float>(weight)});
      weight = is_block() ? joints[k] : static_cast<int>(k) < n_accepted ? 1 : 0;
    }
    return labels;
  }

  [[nodiscard]] bool is_block() const { return setup_.params.rule == VerifyRule::kBlock; }

  ToySetup setup_;
  RowSampler sampler_;
  SamplingParams params_;

 private:
  ToyLogits main_logits_, draft_logits_;
};

inline Tokens followed_by(Tokens text, size_t token) {
  text.push_back(static_cast<TokenId>(token));
  return text;
}

}  // namespace bass::testing
