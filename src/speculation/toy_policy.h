// For tests: a draft-length policy of the engine in the terms of the toy models (kernels/sampling/toy_model.h). The
// policy's own code decides on every round, told what an engine with one sequence would tell it, by a clock of ours.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/sampling/toy_model.h"
#include "speculation/draft_testing.h"

namespace bass::testing {

/// kMixedRounds: the policy chooses between an n-gram and the draft model, where there is a match. kMixedPositions: the
/// positions of a round alternate, as no engine does yet, but the rules allow.
enum class ToyDrafter { kModel, kNgram, kMixedRounds, kMixedPositions };

struct ToyPolicyOptions {
  std::string draft_length;  // the option's text
  ToyDrafter drafter = ToyDrafter::kModel;
  double row_s = 0.1;  // seconds that a row adds to a step, which takes 1 without; a pass of the draft model takes 0.05
  bool is_warm = true;  // costs have been measured and some drafts been judged before
  int max_len = 4;      // that a sequence may draft
};

/// A function of the rounds so far: it begins anew for each decision, so that an enumeration may ask it about any past.
class ToyPolicy {
 public:
  using Question = std::pair<Tokens, std::vector<ToyRound>>;
  /// What it was asked, and what it answered (length, source).
  using Answers = std::map<Question, std::pair<int, int>>;

  explicit ToyPolicy(const ToyPolicyOptions& options)
      : options_(options),
        spec_(parse_draft_length(options.draft_length).value()),
        state_(spec_.policy->start(spec_)),
        answers_(std::make_shared<Answers>()) {
    if (options.is_warm) warm_up();
  }

  DraftChoice operator()(const PolicyView& view) const {
    const Tokens text{view.text.begin(), view.text.end()};
    const auto [len, source] = answer(text, view.rounds);
    (*answers_)[{text, {view.rounds.begin(), view.rounds.end()}}] = {len, source};
    const bool is_model = static_cast<DraftSource>(source) == DraftSource::kModel;
    if (options_.drafter == ToyDrafter::kMixedPositions) return {len, DraftKind::kMixed, source};
    return {len, is_model ? DraftKind::kModel : DraftKind::kOneHot, source};
  }

  /// Of all copies of this one.
  [[nodiscard]] const Answers& answers() const { return *answers_; }
  [[nodiscard]] bool has_drafted() const {
    return std::any_of(answers_->begin(), answers_->end(), [](const auto& entry) { return entry.second.first > 0; });
  }
  /// Some answer is not what it would have been without the rounds before.
  [[nodiscard]] bool has_learnt() const {
    return std::any_of(answers_->begin(), answers_->end(), [this](const auto& entry) {
      const auto& [text, rounds] = entry.first;
      return answer(text, {}) != entry.second;
    });
  }

 private:
  // Of a draft model that is always as sure.
  static constexpr std::array<float, kMaxDraftLen> kConfidences = [] {
    std::array<float, kMaxDraftLen> all{};
    all.fill(0.9f);
    return all;
  }();

  [[nodiscard]] std::pair<int, int> answer(const Tokens& text, std::span<const ToyRound> rounds) const {
    DraftLengthState state = state_;
    StepCosts costs = costs_;
    int step = 0;
    for (const ToyRound& round : rounds) learn(round, step++, &state, &costs);
    DraftCandidate candidate = candidate_of(text, std::min(options_.max_len, state.len));
    if (candidate.max_len > 0) choose_draft_lengths(spec_, state, costs, StepLoad{1}, {&candidate, 1});
    end_draft(&candidate, kConfidences);
    return {candidate.len, static_cast<int>(candidate.source)};
  }

  // The order of a match depends on the text alone; every fifth text has none.
  [[nodiscard]] DraftCandidate candidate_of(const Tokens& text, int limit) const {
    size_t code = 1;
    for (const TokenId token : text) code = code * 7 + static_cast<size_t>(token) + 3;
    const bool is_match = options_.drafter == ToyDrafter::kNgram || options_.drafter == ToyDrafter::kMixedRounds;
    const bool has_model = options_.drafter != ToyDrafter::kNgram;
    if (is_match && code % 5 != 0) {
      return {ngram_source(2 + static_cast<int>(code % 4)), limit, has_model ? limit : 0, 0};
    }
    return {DraftSource::kModel, has_model ? limit : 0, has_model ? limit : 0, 0};
  }

  [[nodiscard]] StepCost cost_of(int n_drafted, bool is_model, int step) const {
    StepCost cost;
    cost.n_rows = 1 + n_drafted;
    cost.step_s = (1 + options_.row_s * cost.n_rows) * (step % 3 == 1 ? 1.2 : 1.0);  // not an even clock
    cost.is_clean = true;
    if (!is_model) return cost;
    cost.n_draft_steps = cost.n_model_drafts = n_drafted;
    cost.draft_s = 0.05 * n_drafted;
    return cost;
  }

  void learn(const ToyRound& round, int step, DraftLengthState* state, StepCosts* costs) const {
    std::vector<AcceptanceLabel> labels;
    for (const ToyLabel& label : round.labels) labels.push_back({label.chance, label.weight});
    std::vector<DraftOutcome> outcomes;
    const auto source = static_cast<DraftSource>(round.source);
    if (round.n_drafted > 0) {
      const bool is_model = source == DraftSource::kModel;
      const auto confidences = std::span(kConfidences).first(is_model ? static_cast<size_t>(round.n_drafted) : 0);
      outcomes.push_back({round.n_drafted, round.n_accepted, source, labels, confidences});
    }
    advance_draft_length(spec_, *state, outcomes);
    learn_step_cost(cost_of(round.n_drafted, source == DraftSource::kModel, step), costs);
  }

  // Costs of all sizes, the regular step's last; and so little of each source that a round's outcome still counts.
  void warm_up() {
    for (int step = 0; step < 60; ++step) learn_step_cost(cost_of(5 - step % 6, true, step), &costs_);
    const std::vector<AcceptanceLabel> labels = {{0.7f, 1.0f}, {0.6f, 0.7f}, {0.5f, 0.4f}};
    for (const DraftSource source : {DraftSource::kModel, DraftSource::kNgram3, DraftSource::kNgram5}) {
      const std::vector<DraftOutcome> outcomes = {{3, 1, source, labels}};
      if (spec_.policy->learn != nullptr) advance_draft_length(spec_, state_, outcomes);
    }
  }

  ToyPolicyOptions options_;
  DraftLengthSpec spec_;
  DraftLengthState state_;
  StepCosts costs_;
  std::shared_ptr<Answers> answers_;
};

}  // namespace bass::testing
