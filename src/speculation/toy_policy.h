// For tests: a draft-length policy of the engine in the terms of the toy models (kernels/sampling/toy_model.h). The
// policy's own code decides on every round, told what an engine with one sequence would tell it, by a clock of ours.
#pragma once

#include <algorithm>
#include <compare>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/sampling/toy_model.h"
#include "speculation/draft_length.h"

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
  bool looks = false;   // the device can look, and nothing was drafted for so long that it is time to
};

/// Where a draft ends before its length, as a device goes by it.
inline EndRule ends_where(const DraftStop& stop) {
  return [stop](std::span<const float> confidences) {
    int n_looked_at = 0;
    const auto n = static_cast<int>(confidences.size());
    float survival = 1;
    for (const float confidence : confidences) survival = stop.survival_behind(survival, confidence);
    if (drafted_len(stop, confidences, &n_looked_at) < n) return DraftEnd::kInFront;
    return stop.ends_behind(survival) ? DraftEnd::kBehind : DraftEnd::kNotYet;
  };
}

/// A function of the rounds so far: it begins anew for each decision, so that an enumeration may ask it about any past.
class ToyPolicy {
 public:
  using Question = std::pair<Tokens, std::vector<ToyRound>>;
  struct Answer {
    int len = 0;
    int source = 0;
    float min_survival = 0, offset = 0, bias = 0, slope = 0;  // DraftStop
    bool is_look = false;
    auto operator<=>(const Answer&) const = default;
  };
  using Answers = std::map<Question, Answer>;  // what it was asked, and what it answered

  explicit ToyPolicy(const ToyPolicyOptions& options)
      : options_(options),
        spec_(parse_draft_length(options.draft_length).value()),
        state_(spec_.policy->start(spec_)),
        answers_(std::make_shared<Answers>()) {
    if (options.is_warm) warm_up();
    if (options.looks) state_.goodput.n_idle_steps = kLongIdle;
  }

  DraftChoice operator()(const PolicyView& view) const {
    // Samples ask the same again and again, and going through the rounds before was most of what they took.
    const auto [asked, is_new] = answers_->try_emplace(
        {Tokens{view.text.begin(), view.text.end()}, std::vector<ToyRound>{view.rounds.begin(), view.rounds.end()}});
    if (is_new) asked->second = answer(asked->first.first, asked->first.second);
    const Answer& given = asked->second;
    DraftChoice choice = choice_of(given);
    choice.is_look = given.is_look;
    return choice;
  }

  /// Of all copies of this one.
  [[nodiscard]] const Answers& answers() const { return *answers_; }
  [[nodiscard]] bool has_drafted() const { return most_drafted() > 0; }
  /// In a round.
  [[nodiscard]] int most_drafted() const {
    int most = 0;
    for (const auto& [question, answer] : *answers_) {
      for (const ToyRound& round : question.second) most = std::max(most, round.is_look ? 0 : round.n_drafted);
    }
    return most;
  }
  /// Had a look found the opposite, another length would have been drafted behind it.
  [[nodiscard]] bool looks_decide() const {
    return std::any_of(answers_->begin(), answers_->end(), [this](const auto& entry) {
      auto [text, rounds] = entry.first;
      for (ToyRound& round : rounds) {
        if (!round.is_look) continue;
        round.n_accepted = 1 - round.n_accepted;
        for (ToyLabel& label : round.labels) label.chance = 1 - label.chance;
      }
      return answer(text, rounds).len != entry.second.len;
    });
  }
  [[nodiscard]] bool has_looked() const {
    return any_round([](const ToyRound& round) { return round.is_look; });
  }
  /// A token was dropped for what the draft said in front of it.
  [[nodiscard]] bool has_dropped() const {
    return any_round(
        [](const ToyRound& round) { return static_cast<int>(round.confidences.size()) > round.n_drafted; });
  }
  /// Some answer is not what it would have been without the rounds before.
  [[nodiscard]] bool has_learnt() const {
    return std::any_of(answers_->begin(), answers_->end(), [this](const auto& entry) {
      const auto& [text, rounds] = entry.first;
      return answer(text, {}) != entry.second;
    });
  }

 private:
  /// What is learnt on the way.
  struct Past {
    DraftLengthState state;
    StepCosts costs;
    SequenceSkills skills;
  };

  template <class Is>
  [[nodiscard]] bool any_round(Is is) const {
    return std::any_of(answers_->begin(), answers_->end(), [&](const auto& entry) {
      return std::any_of(entry.first.second.begin(), entry.first.second.end(), is);
    });
  }

  [[nodiscard]] DraftChoice choice_of(const Answer& given) const {
    if (static_cast<DraftSource>(given.source) != DraftSource::kModel) {
      return {given.len, DraftKind::kOneHot, given.source};
    }
    const bool is_mixed = options_.drafter == ToyDrafter::kMixedPositions;
    const DraftStop stop{given.min_survival, given.offset, {given.bias, given.slope}};
    return {given.len, is_mixed ? DraftKind::kMixed : DraftKind::kModel, given.source, ends_where(stop)};
  }

  [[nodiscard]] Answer answer(const Tokens& text, std::span<const ToyRound> rounds) const {
    Past past{state_, costs_, {}};
    int step = 0;
    for (const ToyRound& round : rounds) learn(round, step++, &past);
    DraftCandidate candidate = candidate_of(text, std::min(options_.max_len, past.state.len));
    candidate.skills = past.skills;
    candidate.can_look = options_.looks;
    if (candidate.max_len > 0) choose_draft_lengths(spec_, past.state, past.costs, StepLoad{1}, {&candidate, 1});
    const DraftStop& stop = candidate.stop;
    return {candidate.len,           static_cast<int>(candidate.source),
            stop.min_survival,       stop.offset,
            stop.model.bias,         stop.model.slope,
            candidate.is_free_look()};
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

  // n_passes: of the draft model
  [[nodiscard]] StepCost cost_of(int n_drafted, int n_passes, int step) const {
    StepCost cost;
    cost.n_rows = 1 + n_drafted;
    cost.step_s = (1 + options_.row_s * cost.n_rows) * (step % 3 == 1 ? 1.2 : 1.0);  // not an even clock
    cost.is_clean = true;
    cost.n_draft_steps = cost.n_model_drafts = n_passes;
    cost.draft_s = 0.05 * n_passes;
    return cost;
  }

  void learn(const ToyRound& round, int step, Past* past) const {
    std::vector<AcceptanceLabel> labels;
    for (const ToyLabel& label : round.labels) labels.push_back({label.chance, label.weight});
    std::vector<DraftOutcome> outcomes;
    const auto source = static_cast<DraftSource>(round.source);
    if (round.n_drafted > 0 || !round.confidences.empty()) {
      outcomes.push_back(
          {round.n_drafted, round.n_accepted, source, labels, round.confidences, &past->skills, round.is_look});
    }
    advance_draft_length(spec_, past->state, outcomes);
    const int n_verified = round.is_look ? 0 : round.n_drafted;
    learn_step_cost(cost_of(n_verified, static_cast<int>(round.confidences.size()), step), &past->costs);
  }

  // Costs of all sizes, the regular step's last; and so little of each source that a round's outcome still counts.
  void warm_up() {
    for (int step = 0; step < 60; ++step) learn_step_cost(cost_of(5 - step % 6, 5 - step % 6, step), &costs_);
    const std::vector<AcceptanceLabel> labels = {{0.7f, 1.0f}, {0.6f, 0.7f}, {0.5f, 0.4f}};
    for (const DraftSource source : {DraftSource::kModel, DraftSource::kNgram3, DraftSource::kNgram5}) {
      const std::vector<DraftOutcome> outcomes = {{3, 1, source, labels}};
      if (spec_.policy->learn != nullptr) advance_draft_length(spec_, state_, outcomes);
    }
  }

  static constexpr int kLongIdle = 1000;  // steps

  ToyPolicyOptions options_;
  DraftLengthSpec spec_;
  DraftLengthState state_;
  StepCosts costs_;
  std::shared_ptr<Answers> answers_;
};

}  // namespace bass::testing
