// Everything that rounds of speculation with toy models (toy_model.h) may do, with its probability, in double
// precision: the rows are renormalised, so that only the rule decides whether the result is exact.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/sampling/block.h"
#include "kernels/sampling/toy_model.h"

namespace bass::testing {

class ToyEnumerator : public ToyRows {
 public:
  using ToyRows::ToyRows;

  /// Probabilities of all texts of n_tokens (numbered in base n_vocab), by walking the whole tree of drafts and
  /// decisions.
  std::vector<double> joint(size_t n_tokens) {
    joint_.assign(static_cast<size_t>(std::lround(std::pow(setup_.main.n_vocab, n_tokens))), 0.0);
    enumerate_rounds({}, -1, n_tokens, 1.0);
    return joint_;
  }

  /// The same from the main model alone: products of its probabilities.
  std::vector<double> main_joint(size_t n_tokens) {
    std::vector<double> all{1.0};
    std::vector<Tokens> prefixes{{}};
    for (size_t i = 0; i < n_tokens; ++i) {
      std::vector<double> next;
      std::vector<Tokens> next_prefixes;
      for (size_t j = 0; j < all.size(); ++j) {
        const std::vector<double> p = main_probabilities(prefixes[j]);
        for (size_t token = 0; token < p.size(); ++token) {
          next.push_back(all[j] * p[token]);
          next_prefixes.push_back(followed_by(prefixes[j], token));
        }
      }
      all = std::move(next);
      prefixes = std::move(next_prefixes);
    }
    return all;
  }

  /// Accepted drafts, in expectation, of a round of `len` behind `text`.
  double expected_accepted(const Tokens& text, int len) {
    double sum = 0;
    enumerate_round(text, len, 1.0, [&](const Tokens&, int n_accepted, double mass) { sum += n_accepted * mass; });
    return sum;
  }

 private:
  struct Position {
    std::vector<double> p, q;  // by token
  };

  std::vector<double> main_probabilities(const Tokens& prefix) {
    const std::vector<float> logits = setup_.main.logits(prefix);
    return normalised(main_row(logits, prefix));
  }

  [[nodiscard]] std::vector<double> normalised(const RowDistribution& row) const {
    std::vector<double> p;
    double sum = 0;
    for (TokenId token = 0; token < setup_.main.n_vocab; ++token) sum += p.emplace_back(probability(row, token));
    for (double& value : p) value /= sum;
    return p;
  }

  Position look_at(const Tokens& prefix) {
    Position at;
    if (setup_.draft_kind == DraftKind::kOneHot) {
      at.q.assign(static_cast<size_t>(setup_.main.n_vocab), 0.0);
      at.q[static_cast<size_t>(one_hot_draft(prefix))] = 1;
    } else {
      const std::vector<uint16_t> stored = draft_row(prefix);
      at.q = normalised(load_draft_row(sampler_, stored.data(), setup_.draft.n_vocab));
    }
    at.p = main_probabilities(prefix);
    return at;
  }

  // max(factor p - q, 0), not normalised; its sum in *sum.
  std::vector<double> residual(const Position& at, double factor, double* sum) const {
    std::vector<double> rest = at.p;
    *sum = 0;
    for (size_t x = 0; x < rest.size(); ++x) *sum += rest[x] = std::max(0.0, factor * at.p[x] - at.q[x]);
    return rest;
  }

  // What is emitted where the residual is called for: normalised, p if it has no mass.
  std::vector<double> emitted_residual(const Position& at, double factor) const {
    double sum = 0;
    if (setup_.fault == Fault::kResidualOfRejection) factor = 1;
    std::vector<double> rest = residual(at, factor, &sum);
    if (sum == 0 || setup_.fault == Fault::kResidualFromMain) return at.p;
    for (double& value : rest) value /= sum;
    return rest;
  }

  std::vector<double> bonus(const Tokens& text, const Position& at, int n_accepted) {
    if (setup_.fault != Fault::kBonusFromRowBefore || n_accepted == 0) return at.p;
    return main_probabilities({text.begin(), text.end() - 1});
  }

  [[nodiscard]] bool is_dropped(double q_x) const {
    return setup_.fault == Fault::kDropUnlikelyDrafts && q_x < kUnlikely;
  }

  void enumerate_rounds(const Tokens& text, int n_accepted, size_t n_tokens, double mass) {
    if (mass == 0) return;
    if (text.size() >= n_tokens) {
      joint_[index_of({text.begin(), text.begin() + static_cast<ptrdiff_t>(n_tokens)})] += mass;
      return;
    }
    enumerate_round(text, setup_.length({n_accepted, -1}), mass, [&](const Tokens& longer, int accepted, double part) {
      enumerate_rounds(longer, accepted, n_tokens, part);
    });
  }

  /// Calls emit(text, n_accepted, mass) for everything that one round may append.
  template <class Emit>
  void enumerate_round(const Tokens& text, int len, double mass, const Emit& emit) {
    if (is_block()) {
      enumerate_block(text, 0, len, {1.0, 1.0}, mass, emit);
    } else {
      enumerate_rejection(text, 0, len, mass, emit);
    }
  }

  template <class Emit>
  void emit_each(const Tokens& text, int n_accepted, const std::vector<double>& p, double mass, const Emit& emit) {
    for (size_t y = 0; y < p.size(); ++y) {
      if (mass * p[y] > 0) emit(followed_by(text, y), n_accepted, mass * p[y]);
    }
  }

  // k drafts of this round have been accepted, len - k are to come.
  template <class Emit>
  void enumerate_rejection(const Tokens& text, int k, int len, double mass, const Emit& emit) {
    if (mass == 0) return;
    const Position at = look_at(text);
    if (k == len) return emit_each(text, k, bonus(text, at, k), mass, emit);
    for (size_t x = 0; x < at.q.size(); ++x) {
      if (at.q[x] == 0) continue;
      const double drafted = mass * at.q[x];
      if (is_dropped(at.q[x])) {
        emit_each(text, k, at.p, drafted, emit);
        continue;
      }
      const double kept = drafted * acceptance_probability(at.p[x], at.q[x]);
      enumerate_rejection(followed_by(text, x), k + 1, len, kept, emit);
      emit_each(text, k, emitted_residual(at, 1), drafted - kept, emit);
    }
  }

  struct BlockPath {
    double joint;       // p_i
    double all_so_far;  // probability that every u_j < h_j, 1 <= j < i: for kStopAtFirstRejection
  };

  // `text` ends with x_1 .. x_i, drafted with probability `mass`. Returns the probability that neither x_1 .. x_i nor
  // something longer is accepted.
  template <class Emit>
  double enumerate_block(const Tokens& text, int i, int len, BlockPath path, double mass, const Emit& emit) {
    const Position at = look_at(text);
    const bool stops_early = setup_.fault == Fault::kStopAtFirstRejection;
    double sum = 0;
    if (i < len) residual(at, path.joint, &sum);
    const double h = block_acceptance(path.joint, sum);
    double dropped = i == len ? 1 : 0, longer_rejected = 0;  // parts of what the draft may do here
    for (size_t x = 0; x < at.q.size() && i < len; ++x) {
      if (at.q[x] == 0) continue;
      if (is_dropped(at.q[x])) {
        dropped += at.q[x];
        continue;
      }
      const BlockPath next{next_joint(path.joint, at.p[x], at.q[x]), path.all_so_far * h};
      longer_rejected += at.q[x] * enumerate_block(followed_by(text, x), i + 1, len, next, mass * at.q[x], emit);
    }
    const double before = stops_early ? path.all_so_far : 1;
    emit_each(text, i, emitted_residual(at, path.joint), mass * before * h * longer_rejected, emit);
    emit_each(text, i, bonus(text, at, i), mass * before * path.joint * dropped, emit);
    if (stops_early) return i == len ? 1 - path.joint : 1 - h;
    return (1 - h) * longer_rejected + (1 - path.joint) * dropped;
  }

  std::vector<double> joint_;
};

}  // namespace bass::testing
