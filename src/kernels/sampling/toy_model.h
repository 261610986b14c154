// For the tests of verification: tiny models whose every number is known, and a decoder that runs rounds of speculation
// with them through the real functions - or, for negative controls, with a fault put in.
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
  double spread = 2.5;          // of the part that depends on the token only
  double context_spread = 1.5;  // of the part that depends on the prefix

  [[nodiscard]] std::vector<float> logits(const Tokens& prefix) const {
    uint32_t code = 0;
    for (const TokenId token : prefix) code = code * 31 + static_cast<uint32_t>(token) + 1;
    std::vector<float> row;
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
  kNone,                // the real functions
  kNoneWrittenOut,      // rejection as verify_with_fault has it, without a fault
  kSharedNoise,         // the residual is drawn with the draft's noise
  kPositionOnlyNoise,   // draft, acceptance and residual do not depend on the round's start
  kResidualFromMain,    // after a rejection: a sample of p instead of (p - q)+
  kDropUnlikelyDrafts,  // a sampled draft token of low q, and what follows it, is not verified
  kTakeUnverified,      // drafted tokens are emitted without looking at them
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

class ToyDecoder {
 public:
  ToyDecoder(const cpu::Kernels* kernels, ToySetup setup)
      : setup_(std::move(setup)), sampler_(kernels, std::max(setup_.main.n_vocab, setup_.draft.n_vocab)) {}

  /// The first n_tokens of one sequence.
  Tokens generate(uint64_t seed, size_t n_tokens) {
    params_ = setup_.params;
    params_.seed = seed;
    Tokens text, earlier_drafts(64, -1);
    PolicyView view{-1, -1};
    while (text.size() < n_tokens) {
      view.earlier_draft = earlier_drafts[text.size()];
      const std::vector<Draft> drafts = draft_round(text, setup_.length(view));
      for (size_t k = 0; k < drafts.size(); ++k) earlier_drafts[text.size() + k] = drafts[k].token;
      view.n_accepted = verify_round(text, drafts);
    }
    text.resize(n_tokens);
    return text;
  }

  /// Probabilities of all texts of n_tokens (numbered in base n_vocab), by walking the whole tree of drafts,
  /// acceptances and rejections with the real distributions and the real acceptance probability.
  std::vector<double> enumerate(size_t n_tokens) {
    joint_.assign(static_cast<size_t>(std::lround(std::pow(setup_.main.n_vocab, n_tokens))), 0.0);
    params_ = setup_.params;
    enumerate_rounds({}, -1, n_tokens, 1.0);
    return joint_;
  }

  /// The same from the main model alone: products of its probabilities.
  std::vector<double> main_joint(size_t n_tokens) {
    std::vector<double> joint{1.0};
    std::vector<Tokens> prefixes{{}};
    for (size_t i = 0; i < n_tokens; ++i) {
      std::vector<double> next;
      std::vector<Tokens> next_prefixes;
      for (size_t j = 0; j < joint.size(); ++j) {
        params_ = setup_.params;
        const std::vector<float> logits = setup_.main.logits(prefixes[j]);
        const RowDistribution p = main_row(logits, prefixes[j]);
        for (TokenId token = 0; token < setup_.main.n_vocab; ++token) {
          next.push_back(joint[j] * probability(p, token));
          next_prefixes.push_back(prefixes[j]);
          next_prefixes.back().push_back(token);
        }
      }
      joint = std::move(next);
      prefixes = std::move(next_prefixes);
    }
    return joint;
  }

  [[nodiscard]] size_t index_of(const Tokens& text) const {
    size_t index = 0;
    for (const TokenId token : text)
      index = index * static_cast<size_t>(setup_.main.n_vocab) + static_cast<size_t>(token);
    return index;
  }

 private:
  struct Draft {
    TokenId token = 0;
    std::vector<uint16_t> stored;  // empty for a one-hot draft
  };

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

  [[nodiscard]] RoundPosition noise_position(size_t position, size_t round_start) const {
    const bool has_round = setup_.fault != Fault::kPositionOnlyNoise;
    return {static_cast<uint32_t>(position), has_round ? static_cast<uint32_t>(round_start) : 0};
  }

  std::vector<Draft> draft_round(const Tokens& text, int len) {
    std::vector<Draft> drafts;
    Tokens prefix = text;
    for (int k = 0; k < len; ++k) {
      Draft draft;
      if (setup_.draft_kind == DraftKind::kOneHot) {
        draft.token = one_hot_draft(prefix);
      } else {
        draft.stored = draft_row(prefix);
        const RowDistribution q = load_draft_row(sampler_, draft.stored.data(), setup_.draft.n_vocab);
        draft.token = draft_token(sampler_.kernels(), q, params_, noise_position(prefix.size(), text.size()));
        if (setup_.fault == Fault::kDropUnlikelyDrafts && probability(q, draft.token) < kUnlikely) break;
      }
      prefix.push_back(draft.token);
      drafts.push_back(std::move(draft));
    }
    return drafts;
  }

  // An n-gram drafter's part: any function of the text.
  [[nodiscard]] TokenId one_hot_draft(const Tokens& prefix) const {
    const std::vector<float> logits = setup_.draft.logits(prefix);
    return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }

  // Appends what the round emits to `text`; returns how many drafts were accepted.
  int verify_round(Tokens& text, const std::vector<Draft>& drafts) {
    const size_t round_start = text.size();
    int n_accepted = 0;
    for (const Draft& draft : drafts) {
      const RowVerdict verdict = verify(text, draft, noise_position(text.size(), round_start));
      text.push_back(verdict.token);
      if (!verdict.accepted) return n_accepted;
      ++n_accepted;
    }
    const std::vector<float> logits = setup_.main.logits(text);
    const RowDistribution p = main_row(logits, text);
    text.push_back(regular_row(sampler_, p, logits.data(), params_, static_cast<uint32_t>(text.size())).token);
    return n_accepted;
  }

  RowVerdict verify(const Tokens& prefix, const Draft& draft, RoundPosition at) {
    if (setup_.fault == Fault::kTakeUnverified) return {true, draft.token, 0, false};
    RowDistribution q;
    if (!draft.stored.empty()) q = load_draft_row(sampler_, draft.stored.data(), setup_.draft.n_vocab);
    const DraftedToken drafted{draft.token, draft.stored.empty() ? nullptr : &q};
    const std::vector<float> logits = setup_.main.logits(prefix);
    const RowDistribution p = main_row(logits, prefix);
    if (setup_.fault == Fault::kSharedNoise || setup_.fault == Fault::kResidualFromMain ||
        setup_.fault == Fault::kNoneWrittenOut) {
      return verify_with_fault(p, drafted, at);
    }
    return verify_row(sampler_, p, logits.data(), params_, at, drafted);
  }

  // `rejection` written out, with the two faults that lie inside of it.
  RowVerdict verify_with_fault(const RowDistribution& p, const DraftedToken& draft, RoundPosition at) {
    const RandomStream accept{params_.seed, at.position, at.round_start, RandomPurpose::kAccept, params_.sample_idx};
    if (uniform_open(accept.bits(0)) < acceptance_probability(p, draft)) return {true, draft.token, 0, false};
    RandomStream residual = accept;
    residual.purpose = setup_.fault == Fault::kSharedNoise ? RandomPurpose::kDraft : RandomPurpose::kResidual;
    if (setup_.fault == Fault::kResidualFromMain) return {false, sample(sampler_.kernels(), p, residual), 0, false};
    const RowDistribution& q = *draft.q;
    return {false,
            sampler_.kernels().residual_argmax(p.z, p.kept, p.log_norm, p.n, q.z, q.kept, q.log_norm, q.n, residual), 0,
            false};
  }

  // --- enumeration

  struct Position {
    std::vector<double> p, q, acceptance, residual;  // by token
  };

  Position look_at(const Tokens& prefix) {
    const auto n = static_cast<size_t>(setup_.main.n_vocab);
    Position at{std::vector<double>(n), std::vector<double>(n), std::vector<double>(n), std::vector<double>(n)};
    RowDistribution q;
    const bool is_one_hot = setup_.draft_kind == DraftKind::kOneHot;
    const std::vector<uint16_t> stored = is_one_hot ? std::vector<uint16_t>{} : draft_row(prefix);
    if (!is_one_hot) q = load_draft_row(sampler_, stored.data(), setup_.draft.n_vocab);
    const std::vector<float> logits = setup_.main.logits(prefix);
    const RowDistribution p = main_row(logits, prefix);
    double residual_mass = 0;
    for (size_t i = 0; i < n; ++i) {
      const auto token = static_cast<TokenId>(i);
      at.p[i] = probability(p, token);
      at.q[i] = is_one_hot ? (token == one_hot_draft(prefix) ? 1 : 0) : probability(q, token);
      if (at.q[i] > 0) at.acceptance[i] = acceptance_probability(p, {token, is_one_hot ? nullptr : &q});
      residual_mass += at.residual[i] = std::max(0.0, at.p[i] - at.q[i]);
    }
    for (double& r : at.residual) r /= residual_mass > 0 ? residual_mass : 1;
    if (setup_.fault == Fault::kResidualFromMain) at.residual = at.p;
    return at;
  }

  void enumerate_rounds(const Tokens& text, int n_accepted, size_t n_tokens, double mass) {
    if (mass == 0) return;
    if (text.size() >= n_tokens) {
      joint_[index_of({text.begin(), text.begin() + static_cast<ptrdiff_t>(n_tokens)})] += mass;
      return;
    }
    enumerate_round(text, 0, setup_.length({n_accepted, -1}), n_tokens, mass);
  }

  // k drafts of this round have been accepted, len - k are to come.
  void enumerate_round(const Tokens& text, int k, int len, size_t n_tokens, double mass) {
    if (mass == 0 || text.size() >= n_tokens) return enumerate_rounds(text, k, n_tokens, mass);
    const Position at = look_at(text);
    const auto followed_by = [&](size_t token) {
      Tokens longer = text;
      longer.push_back(static_cast<TokenId>(token));
      return longer;
    };
    for (size_t x = 0; x < at.p.size(); ++x) {
      if (k == len) {
        enumerate_rounds(followed_by(x), k, n_tokens, mass * at.p[x]);
        continue;
      }
      const bool is_dropped = setup_.fault == Fault::kDropUnlikelyDrafts && at.q[x] < kUnlikely;
      const double kept = is_dropped ? 0 : mass * at.q[x] * at.acceptance[x];
      enumerate_round(followed_by(x), k + 1, len, n_tokens, kept);
      const double lost = mass * at.q[x] - kept;
      for (size_t y = 0; y < at.p.size(); ++y) {
        enumerate_rounds(followed_by(y), k, n_tokens, lost * (is_dropped ? at.p[y] : at.residual[y]));
      }
    }
  }

  ToySetup setup_;
  RowSampler sampler_;
  SamplingParams params_;
  std::vector<double> joint_;
};

}  // namespace bass::testing
