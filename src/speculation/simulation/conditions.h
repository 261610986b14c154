// For tests: a policy on a machine whose conditions change from step to step, without a trace. Fixed lengths are worth
// what their formula says, so that what a policy reaches is compared with the best of them under the same conditions.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "speculation/draft_testing.h"
#include "speculation/simulation/length_chooser.h"
#include "speculation/simulation/text_reading.h"

namespace bass::testing {

/// What holds in a step.
struct Conditions {
  int n_sequences = 8;
  double model_acceptance = 0.8;  // of every token of the draft model's, if those before it are accepted
  double ngram_acceptance = -1;   // of an n-gram's; below 0: there is no match
  double match_share = 1;         // of the sequences have a match in a step, where there are n-grams and no model
  double step_factor = 1;         // how much longer steps take, passes of the draft model with them
  double row_factor = 1;          // how much longer each row takes than the first
  double context_s = 0;           // that reading the contexts adds to the step, whatever its rows; nobody is told
  std::vector<int> context_lens;  // tokens, of each sequence; none: 0. Attention's time is told, as engines measure it

  [[nodiscard]] int context_len(int sequence_idx) const {
    return context_lens.empty() ? 0 : context_lens[static_cast<size_t>(sequence_idx)];
  }
  /// What regular decoding asks for.
  [[nodiscard]] StepLoad regular() const {
    StepLoad load{n_sequences};
    for (const int len : context_lens) load.n_read += len;
    load.n_seen = load.n_read;
    return load;
  }
};

struct ChangingMachine {
  std::function<double(int n_rows)> step_s;
  double draft_pass_s = 0.05;  // of a pass of the draft model; 0: there is none
  std::function<Conditions(int step)> conditions;
  bool has_labels = true;  // chances are told, as `rejection` does; else what was accepted
  bool can_look = true;    // DraftCandidate::can_look
  double noise = 0.05;     // standard deviation of the logarithm of a measured time; one in 100 takes 3 times as long
  double disturbed = 0;    // of the steps take twice as long, at random: somebody else works on the machine
  double bursts = 0;       // of the steps begin a burst of such work: 2 to 6 take 1.5 to 3 times as long
  double read_s = 0;       // of a token of context, for a sequence's first row
  double seen_s = 0;       // and for each further one
  double catch_up_s = 0;   // of a token that the draft model reads before it drafts; 0: texts are always read

  static constexpr int kMaxLen = 8;

  [[nodiscard]] double attention_s(const StepLoad& load) const {
    return load.n_read * read_s + (load.n_seen - load.n_read) * seen_s;
  }
  [[nodiscard]] double seconds(const Conditions& now, const StepLoad& load, int n_passes) const {
    const double first = step_s(now.n_sequences);
    const double rows = (step_s(load.n_rows) - first) * now.row_factor;
    return (first + rows + now.context_s + attention_s(load) + n_passes * draft_pass_s) * now.step_factor;
  }
  static double expected_tokens(double acceptance, int len) {
    double sum = 1, product = 1;
    for (int i = 0; i < len; ++i) sum += product *= acceptance;
    return sum;
  }
};

/// Steps of a run, added up.
struct Progress {
  double tokens = 0;  // in expectation of the lengths that were chosen
  double seconds = 0;
  [[nodiscard]] double goodput() const { return seconds > 0 ? tokens / seconds : 0; }
};

/// What makes steps longer than they should be, step by step.
class Disturbances {
 public:
  explicit Disturbances(const ChangingMachine& machine) : machine_(machine) {}

  /// The next step's factor.
  double next(std::mt19937_64* random) {
    double outlier = uniform_(*random) < 0.01 ? 3 : 1;
    if (machine_.disturbed > 0 && uniform_(*random) < machine_.disturbed) outlier *= 2;
    if (machine_.bursts > 0 && n_left_ == 0 && uniform_(*random) < machine_.bursts) {
      n_left_ = 2 + static_cast<int>(5 * uniform_(*random));
      burst_ = 1.5 + 1.5 * uniform_(*random);
    }
    const double factor = outlier * (n_left_ > 0 ? burst_ : 1.0) * std::exp(machine_.noise * normal_(*random));
    n_left_ = std::max(n_left_ - 1, 0);
    return factor;
  }

 private:
  const ChangingMachine& machine_;
  std::uniform_real_distribution<> uniform_;
  std::normal_distribution<> normal_;
  int n_left_ = 0;  // steps of a burst
  double burst_ = 1;
};

/// A policy's run, step by step.
class ChangingRun {
 public:
  ChangingRun(const ChangingMachine& machine, LengthChooser* chooser, uint64_t seed)
      : machine_(machine), chooser_(chooser), random_(seed), disturbances_(machine) {}

  /// What the next step brought, without the luck of its draws, and took, without its noise.
  Progress step() {
    now_ = machine_.conditions(n_steps_++);
    n_unread_.resize(static_cast<size_t>(now_.n_sequences), 1);
    add_candidates();
    load_ = now_.regular();
    chooser_->choose(load_, candidates_);
    progress_ = {1.0 * (now_.n_sequences - static_cast<int>(candidates_.size())), 0};
    cost_ = {};
    labels_.assign(candidates_.size(), {});
    outcomes_.clear();
    for (size_t i = 0; i < candidates_.size(); ++i) verify(i);
    take_time();
    chooser_->learn(cost_, now_.n_sequences, outcomes_);
    return progress_;
  }

 private:
  void add_candidates() {
    const bool has_model = machine_.draft_pass_s > 0;
    const bool has_ngram = now_.ngram_acceptance >= 0;
    const int max_len = std::min(chooser_->max_len(), ChangingMachine::kMaxLen);
    const int max_model_len = has_model ? max_len : 0;
    candidates_.clear();
    for (int i = 0; i < now_.n_sequences && (has_model || has_ngram); ++i) {
      if (!has_model && now_.match_share < 1 && uniform_(random_) >= now_.match_share) continue;
      const DraftSource source = has_ngram ? DraftSource::kNgram4 : DraftSource::kModel;
      candidates_.push_back({source, has_ngram ? max_len : max_model_len, max_model_len, 0, now_.context_len(i)});
      candidates_.back().can_look = machine_.can_look;
      if (machine_.catch_up_s > 0) candidates_.back().n_unread = n_unread_[static_cast<size_t>(i)];
    }
  }

  /// How many of `len` tokens are accepted. Chances differ from token to token; their mean is the acceptance.
  int accept(int len, double acceptance, std::vector<AcceptanceLabel>* labels) {
    const double spread = std::min(acceptance, 1 - acceptance);
    int n_accepted = 0;
    for (bool is_reached = true; is_reached && n_accepted < len; n_accepted += is_reached ? 1 : 0) {
      const double chance = acceptance + spread * (2 * uniform_(random_) - 1);
      labels->push_back({static_cast<float>(chance), 1.0f});
      is_reached = uniform_(random_) < chance;
    }
    if (!machine_.has_labels) labels->clear();
    return n_accepted;
  }

  void verify(size_t i) {
    DraftCandidate& candidate = candidates_[i];
    const bool is_model = candidate.source == DraftSource::kModel;
    const double acceptance = is_model ? now_.model_acceptance : now_.ngram_acceptance;
    const std::span<const float> confidences = end_draft(&candidate);
    const auto n_looked_at = static_cast<int>(confidences.size());
    const int len = candidate.len;
    const int n_verified = candidate.is_free_look() ? 0 : len;
    progress_.tokens += ChangingMachine::expected_tokens(acceptance, n_verified);
    const int n_accepted = accept(len, acceptance, &labels_[i]);
    if (len > 0 || n_looked_at > 0)
      outcomes_.push_back({.n_drafted = len,
                           .n_accepted = n_accepted,
                           .source = candidate.source,
                           .labels = labels_[i],
                           .confidences = confidences,
                           .is_look = candidate.is_look});
    load_.n_rows += n_verified;
    load_.n_seen += static_cast<double>(n_verified) * candidate.context_len;
    cost_.n_draft_steps = std::max(cost_.n_draft_steps, n_looked_at);
    cost_.n_model_drafts += n_looked_at;
    if (machine_.catch_up_s == 0) return;
    const int n_emitted = candidate.is_free_look() ? 1 : n_accepted + 1;
    read_text(n_looked_at, n_emitted, &n_unread_[i], &cost_);  // every sequence is a candidate there
  }

  void take_time() {
    cost_.is_clean = true;
    cost_.n_rows = load_.n_rows;
    cost_.n_read = load_.n_read;
    cost_.n_seen = load_.n_seen;
    const double reading_s = machine_.catch_up_s * (cost_.n_caught_up + cost_.n_behind) * now_.step_factor;
    progress_.seconds = machine_.seconds(now_, load_, cost_.n_draft_steps) + reading_s;
    const double disturbance = disturbances_.next(&random_);
    cost_.draft_s = (cost_.n_draft_steps * machine_.draft_pass_s * now_.step_factor + reading_s) * disturbance;
    cost_.step_s = progress_.seconds * disturbance - cost_.draft_s;
    cost_.attention_s = machine_.attention_s(load_) * now_.step_factor * disturbance;
  }

  const ChangingMachine& machine_;
  LengthChooser* chooser_;
  std::mt19937_64 random_;
  std::uniform_real_distribution<> uniform_;
  Disturbances disturbances_;
  int n_steps_ = 0;
  std::vector<int> n_unread_;  // [sequences], where the draft model does not follow by itself
  // Of the step.
  Conditions now_;
  StepLoad load_;
  StepCost cost_;
  Progress progress_;
  std::vector<DraftCandidate> candidates_;
  std::vector<std::vector<AcceptanceLabel>> labels_;  // of each candidate
  std::vector<DraftOutcome> outcomes_;
};

/// What each step of a policy's run brought and took.
inline std::vector<Progress> run_steps(const ChangingMachine& machine, LengthChooser* chooser, int n_steps,
                                       uint64_t seed = 1) {
  ChangingRun run(machine, chooser, seed);
  std::vector<Progress> steps;
  for (int i = 0; i < n_steps; ++i) steps.push_back(run.step());
  return steps;
}

inline Progress sum_of(const std::vector<Progress>& steps, int from, int to) {
  Progress sum;
  for (int step = from; step < to; ++step) {
    sum.tokens += steps[static_cast<size_t>(step)].tokens;
    sum.seconds += steps[static_cast<size_t>(step)].seconds;
  }
  return sum;
}

/// Tokens a second of a fixed length of one drafter over the steps [from, to).
inline double fixed_goodput(const ChangingMachine& machine, int len, bool is_model, int from, int to) {
  Progress sum;
  for (int step = from; step < to; ++step) {
    const Conditions now = machine.conditions(step);
    const double acceptance = is_model ? now.model_acceptance : std::max(0.0, now.ngram_acceptance);
    sum.tokens += now.n_sequences * ChangingMachine::expected_tokens(acceptance, len);
    StepLoad load = now.regular();
    load.n_rows *= 1 + len;
    load.n_seen *= 1 + len;
    sum.seconds += machine.seconds(now, load, is_model ? len : 0);
  }
  return sum.goodput();
}

/// Of the best length of the best drafter, regular decoding among them.
inline double best_fixed_goodput(const ChangingMachine& machine, int from, int to) {
  double best = fixed_goodput(machine, 0, true, from, to);
  const bool has_ngram = machine.conditions(from).ngram_acceptance >= 0;
  for (int len = 1; len <= ChangingMachine::kMaxLen; ++len) {
    if (machine.draft_pass_s > 0) best = std::max(best, fixed_goodput(machine, len, true, from, to));
    if (has_ngram) best = std::max(best, fixed_goodput(machine, len, false, from, to));
  }
  return best;
}

/// Machines on which different lengths are best.
struct NamedMachine {
  const char* name;
  std::function<double(int)> step_s;
};

inline const NamedMachine kMachines[] = {
    {"rows are free up to a ridge", [](int rows) { return std::max(1.0, rows / 40.0); }},
    {"each row costs", [](int rows) { return 0.3 + 0.1 * rows; }},
    {"each row costs a little", [](int rows) { return 1.0 + 0.03 * rows; }},
    {"steps at tile edges", [](int rows) { return 0.5 + 0.4 * std::ceil(rows / 12.0); }},
};

/// The engine's policy, without any measurement.
inline std::unique_ptr<LengthChooser> new_goodput() { return engine_policy(parse_draft_length("goodput").value(), {}); }

}  // namespace bass::testing
