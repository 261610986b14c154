// Everything that rounds of speculation with toy models (toy_model.h) may do, with its probability, in double
// precision: the rows are renormalised, so that only the rule decides whether the result is exact. Policies see the
// numbers that they would see in ToyDecoder, and decide as they do there.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
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
    rounds_.clear();
    enumerate_rounds({}, n_tokens, 1.0);
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
        const std::vector<double>& p = main_probabilities(prefixes[j]);
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
    for (const auto& [outcome, mass] : enumerate_round(text, len)) sum += outcome.second.n_accepted * mass;
    return sum;
  }

 private:
  /// A position behind a text: what main model and draft say of its token.
  struct Position {
    std::vector<double> p, q;              // by token
    std::vector<double> heard_p, heard_q;  // as the real functions give them, not renormalised: policies hear of these
    std::vector<float> chances;            // by drafted token
    std::vector<DraftView> views;          // by drafted token; their k is not set
    float confidence = 1;                  // of the draft
  };
  /// A round's drafts so far. positions has one more: the one behind the last draft.
  struct Path {
    Tokens text;  // with the drafts
    std::vector<const Position*> positions;
    std::vector<size_t> drafts;
    std::vector<float> confidences;  // of the places that a draft with an end of its own has come to
    double mass = 1;
  };
  /// What a round may come to (its text, what policies hear of it), with its probability. What looks alike is one.
  using Outcomes = std::map<std::pair<Tokens, ToyRound>, double>;

  const std::vector<double>& main_probabilities(const Tokens& prefix) {
    std::vector<double>& p = main_probabilities_[prefix];
    if (p.empty()) {
      const std::vector<float>& logits = main_logits(prefix);
      p = normalised(main_row(logits, prefix));
    }
    return p;
  }

  [[nodiscard]] std::vector<double> normalised(const RowDistribution& row) const {
    std::vector<double> p;
    double sum = 0;
    for (TokenId token = 0; token < setup_.main.n_vocab; ++token) sum += p.emplace_back(probability(row, token));
    for (double& value : p) value /= sum;
    return p;
  }

  const Position& look_at(const Tokens& prefix, DraftKind kind) {
    const bool is_certain = is_one_hot(kind, prefix);
    Position& at = positions_[{prefix, is_certain}];
    if (!at.p.empty()) return at;
    at.p = main_probabilities(prefix);
    const std::vector<float>& logits = main_logits(prefix);
    const DraftRow drafted = is_certain ? DraftRow{} : draft_row(prefix);
    at.confidence = drafted.confidence;
    RowDistribution q;
    if (!is_certain) q = load_draft_row(sampler_, drafted.stored.data(), setup_.draft.n_vocab);
    const RowDistribution p = main_row(logits, prefix);
    const TokenId certain = one_hot_draft(prefix);
    for (TokenId token = 0; token < setup_.main.n_vocab; ++token) {
      const DraftedToken draft{token, is_certain ? nullptr : &q};
      const bool is_possible = !is_certain || token == certain;
      at.heard_p.push_back(probability(p, token));
      at.heard_q.push_back(is_possible ? draft_probability(draft, token) : 0);
      at.chances.push_back(is_possible ? static_cast<float>(acceptance_chance(sampler_, p, draft)) : 0);
      at.views.push_back(is_certain ? DraftView{0, true, token, 1, 1, 0} : view_of(0, token, q));
    }
    at.q = is_certain ? at.heard_q : normalised(q);
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

  std::vector<double> bonus(const Tokens& text, int n_accepted) {
    if (setup_.fault != Fault::kBonusFromRowBefore || n_accepted == 0) return main_probabilities(text);
    return main_probabilities({text.begin(), text.end() - 1});
  }

  void enumerate_rounds(const Tokens& text, size_t n_tokens, double mass) {
    if (text.size() >= n_tokens) {
      joint_[index_of({text.begin(), text.begin() + static_cast<ptrdiff_t>(n_tokens)})] += mass;
      return;
    }
    const DraftChoice choice = setup_.length({rounds_.empty() ? -1 : rounds_.back().n_accepted, -1, text, rounds_});
    for (const auto& [outcome, part] : enumerate_round(text, choice)) {
      rounds_.push_back(outcome.second);
      enumerate_rounds(outcome.first, n_tokens, mass * part);
      rounds_.pop_back();
    }
  }

  Outcomes enumerate_round(const Tokens& text, const DraftChoice& choice) {
    Outcomes outcomes;
    Path path{text, {&look_at(text, kind_of(choice))}, {}, {}, 1.0};
    enumerate_drafts(choice, &path, &outcomes);
    return outcomes;
  }

  void enumerate_drafts(const DraftChoice& choice, Path* path, Outcomes* outcomes) {
    const size_t k = path->drafts.size();
    if (static_cast<int>(k) == choice.len) return decide(choice, *path, outcomes);
    const Position& at = *path->positions.back();
    const double mass = path->mass;
    if (choice.ends) path->confidences.push_back(at.confidence);
    for (size_t x = 0; x < at.q.size(); ++x) {
      if (at.q[x] == 0) continue;
      const DraftEnd end = end_of(choice, path->confidences, at.views[x].q_token);
      path->mass = mass * at.q[x];
      if (end == DraftEnd::kInFront) {
        decide(choice, *path, outcomes);
        continue;
      }
      path->text.push_back(static_cast<TokenId>(x));
      path->drafts.push_back(x);
      path->positions.push_back(&look_at(path->text, kind_of(choice)));
      DraftView view = at.views[x];
      view.k = k;
      if (const size_t n = n_thrown_away(view); n > 0) {
        decide(choice, without_last(*path, n), outcomes);
      } else if (end == DraftEnd::kBehind) {
        decide(choice, *path, outcomes);
      } else {
        enumerate_drafts(choice, path, outcomes);
      }
      path->positions.pop_back();
      path->drafts.pop_back();
      path->text.pop_back();
    }
    if (choice.ends) path->confidences.pop_back();
    path->mass = mass;
  }

  static Path without_last(Path path, size_t n) {
    n = std::min(n, path.drafts.size());
    path.text.resize(path.text.size() - n);
    path.drafts.resize(path.drafts.size() - n);
    path.positions.resize(path.positions.size() - n);
    return path;
  }

  // Adds what a step may come to that looks at a drafted token, and emits a regular one.
  void look(const DraftChoice& choice, const Path& path, Outcomes* outcomes) {
    const Position& at = *path.positions.front();
    const size_t x = path.drafts.front();
    const Tokens text{path.text.begin(), path.text.end() - 1};
    for (size_t y = 0; y < at.p.size(); ++y) {
      const size_t emitted = setup_.fault == Fault::kLookIsTaken ? x : y;
      const int n_agreed = emitted == x ? 1 : 0;
      const std::vector<ToyLabel> labels = labels_of({at.chances[x]}, {1.0}, n_agreed);
      const ToyRound round{1, n_agreed, kind_of(choice), choice.source, labels, path.confidences, true};
      if (at.p[y] > 0) (*outcomes)[{followed_by(text, emitted), round}] += path.mass * at.p[y];
    }
  }

  // Adds what verification of these drafts may come to.
  void decide(const DraftChoice& choice, const Path& path, Outcomes* outcomes) {
    const size_t n = path.drafts.size();
    if (choice.is_look && n > 0) return look(choice, path, outcomes);
    std::vector<double> joints(n + 1, 1.0);  // p_i of block.h
    std::vector<double> heard_joints;
    std::vector<float> chances;
    for (size_t i = 0; i < n; ++i) {
      const Position& at = *path.positions[i];
      const size_t x = path.drafts[i];
      joints[i + 1] = next_joint(joints[i], at.p[x], at.q[x]);
      heard_joints.push_back(next_joint(i == 0 ? 1 : heard_joints.back(), at.heard_p[x], at.heard_q[x]));
      chances.push_back(at.chances[x]);
    }
    const std::vector<double> ends = is_block() ? block_ends(path, joints) : rejection_ends(path);
    for (size_t i = 0; i <= n; ++i) {
      const int n_accepted = static_cast<int>(i);
      if (path.mass * ends[i] == 0) continue;
      const Tokens text{path.text.begin(), path.text.end() - static_cast<ptrdiff_t>(n - i)};
      const double factor = is_block() ? joints[i] : 1;
      const std::vector<double> p = i == n ? bonus(text, n_accepted) : emitted_residual(*path.positions[i], factor);
      const ToyRound round{
          static_cast<int>(n), n_accepted, kind_of(choice), choice.source, labels_of(chances, heard_joints, n_accepted),
          path.confidences};
      for (size_t y = 0; y < p.size(); ++y) {
        const double mass = path.mass * ends[i] * p[y];
        if (mass > 0) (*outcomes)[{followed_by(text, y), round}] += mass;
      }
    }
  }

  // Probabilities that 0 .. n drafts are accepted. [n + 1]
  static std::vector<double> rejection_ends(const Path& path) {
    std::vector<double> ends;
    double reached = 1;
    for (size_t i = 0; i < path.drafts.size(); ++i) {
      const size_t x = path.drafts[i];
      const double kept = acceptance_probability(path.positions[i]->p[x], path.positions[i]->q[x]);
      ends.push_back(reached * (1 - kept));
      reached *= kept;
    }
    ends.push_back(reached);
    return ends;
  }

  // The same for tau of block.h: the largest i with u_i < h_i. joints: p_i [n + 1]
  std::vector<double> block_ends(const Path& path, const std::vector<double>& joints) const {
    const size_t n = path.drafts.size();
    std::vector<double> h(n + 1, 1.0), ends(n + 1);
    for (size_t i = 1; i <= n; ++i) {
      double sum = 0;
      if (i < n) residual(*path.positions[i], joints[i], &sum);
      h[i] = i < n ? block_acceptance(joints[i], sum) : joints[i];
    }
    if (setup_.fault == Fault::kStopAtFirstRejection) {
      double all = 1;
      for (size_t i = 0; i <= n; ++i) {
        all *= h[i];
        ends[i] = all * (i < n ? 1 - h[i + 1] : 1);
      }
      return ends;
    }
    double none_behind = 1;
    for (size_t i = n + 1; i-- > 0;) {
      ends[i] = h[i] * none_behind;
      none_behind *= 1 - h[i];
    }
    return ends;
  }

  std::vector<double> joint_;
  std::vector<ToyRound> rounds_;  // in front of the one that is enumerated
  std::map<Tokens, std::vector<double>> main_probabilities_;
  std::map<std::pair<Tokens, bool>, Position> positions_;  // by text and whether the draft is one-hot
};

}  // namespace bass::testing
