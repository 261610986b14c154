#include "cli/explanation.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "speculation/draft_length.h"
#include "speculation/policies/off.h"

namespace bass {
namespace {

constexpr double kClear = 0.02;       // gains and losses that are smaller may be chance
constexpr double kFarOff = 0.5;       // predictions of steps that say nothing about those that were not taken
constexpr double kWorthALine = 0.01;  // of the time of decoding
constexpr int64_t kTelling = 64;      // steps; fewer may have passed before anything was known of drafts

std::optional<double> ratio(double numerator, double denominator) {
  if (numerator <= 0 || denominator <= 0) return std::nullopt;
  return numerator / denominator;
}

const DraftLengthPolicy& policy_of(const GenerateOptions& options) {
  const Result<DraftLengthSpec> spec = parse_draft_length(options.request.speculation.draft_length);
  BASS_CHECK(spec.ok());  // the engine has taken it
  return *spec.value().policy;
}

std::string without_draft_model(const GenerateOptions& options) {
  return options.is_draft_shipped ? "--drafter ngram does without it" : "leave -d out";
}

std::string nothing_drafted(const GenerationResult& result, const Explanation& explanation,
                            const GenerateOptions& options) {
  if (&policy_of(options) == &kOffPolicy || options.request.speculation.drafter == DrafterChoice::kOff) {
    return "Nothing was drafted: speculation was off.";
  }
  const std::string text = "Nothing was drafted: there was no draft that was expected to pay.";
  if (!result.draft.has_value()) return text;
  const double share = explanation.decode_s > 0 ? explanation.draft_s / explanation.decode_s : 0;
  const std::string cost = share < kWorthALine
                               ? "only took memory"
                               : fmt::format("took memory and {:.0f} % of decoding, to be looked at", 100 * share);
  return fmt::format("{} The draft model {}: {}.", text, cost, without_draft_model(options));
}

bool is_lost(const std::optional<double>& speedup) { return speedup.has_value() && *speedup < 1 - kClear; }

std::string advice_after_a_loss(const Explanation& explanation, const GenerateOptions& options) {
  if (!knows_costs(options)) return "--draft-length goodput drafts only what pays.";
  const bool only_model_lost = is_lost(explanation.speedup_of[SpeculationAccount::kModel]) &&
                               !is_lost(explanation.speedup_of[SpeculationAccount::kNgram]);
  if (only_model_lost) return fmt::format("The draft model does not pay: {}.", without_draft_model(options));
  return "--drafter off decodes regularly.";
}

bool is_unsure(const Explanation& explanation) { return explanation.step_error.value_or(0) > kFarOff; }

std::string cannot_be_told(const Explanation& explanation) {
  return fmt::format(
      "Whether speculation paid cannot be told: predictions were off by {:.0f} % of what steps took, and what others "
      "would "
      "have taken is such a prediction. A longer run, or a quieter machine, tells more.",
      100 * *explanation.step_error);
}

std::string overall(const Explanation& explanation, const GenerateOptions& options) {
  const double saved_s = explanation.regular_s - explanation.decode_s;
  const double speedup = *explanation.speedup;
  if (is_lost(explanation.speedup)) {
    return fmt::format("Speculation did not pay: {:.2f} times as fast as regular decoding, {:.3g} s lost. {}", speedup,
                       -saved_s, advice_after_a_loss(explanation, options));
  }
  if (explanation.is_guess) {
    return "Whether speculation paid cannot be told: regular steps were never measured here. A longer run with "
           "--draft-length off measures them.";
  }
  if (speedup < 1 + kClear) return "Speculation made no difference to the speed.";
  return fmt::format("Speculation paid: {:.2f} times as fast as regular decoding, {:.3g} s saved.", speedup, saved_s);
}

// Drafters that lose where speculation as a whole does not.
std::string losing_drafters(const GenerationResult& result, const Explanation& explanation,
                            const GenerateOptions& options) {
  const auto& kinds = result.stats.account.kinds;
  const StepKindSums& ngram = kinds[SpeculationAccount::kNgram];
  const auto& speedup_of = explanation.speedup_of;
  std::string text;
  if (result.draft.has_value() && kinds[SpeculationAccount::kModel].n_steps == 0) {
    text += fmt::format(" The draft model was never used: {}.", without_draft_model(options));
  } else if (is_lost(speedup_of[SpeculationAccount::kModel])) {
    text += fmt::format(" The draft model did not pay where it drafted ({:.2f} times as fast): {}.",
                        *speedup_of[SpeculationAccount::kModel], without_draft_model(options));
  }
  if (is_lost(speedup_of[SpeculationAccount::kNgram]) &&
      seconds_of(ngram) - ngram.regular_s > kWorthALine * explanation.decode_s) {
    text += fmt::format(" n-grams did not pay ({:.2f} times as fast).", *speedup_of[SpeculationAccount::kNgram]);
  }
  return text;
}

}  // namespace

double seconds_of(const StepKindSums& kind) { return kind.draft_s + kind.step_s + kind.rest_s; }

Explanation explain(const EngineStats& stats) {
  const SpeculationAccount& account = stats.account;
  Explanation explanation;
  int64_t n_guessed = 0, n_drafted = 0;
  for (size_t i = 0; i < account.kinds.size(); ++i) {
    const StepKindSums& kind = account.kinds[i];
    const bool has_drafts = i != SpeculationAccount::kRegular;
    explanation.draft_s += kind.draft_s;
    explanation.other_s += kind.rest_s;
    (has_drafts ? explanation.drafted_steps_s : explanation.regular_steps_s) += kind.step_s;
    explanation.decode_s += seconds_of(kind);
    explanation.regular_s += kind.regular_s;
    explanation.speedup_of[i] = ratio(kind.regular_s, seconds_of(kind));
    explanation.expected_speedup_of[i] = ratio(kind.expected_regular_s, kind.expected_s);
    n_guessed += kind.n_guessed;
    if (has_drafts) n_drafted += kind.n_steps;
  }
  explanation.speedup = ratio(explanation.regular_s, explanation.decode_s);
  explanation.is_guess = 2 * n_guessed > n_drafted;
  double predicted_steps_s = 0;
  for (const StepSizeSums& size : account.sizes) predicted_steps_s += size.step_s;
  if (predicted_steps_s > 0) explanation.step_error = account.step_error_s / predicted_steps_s;
  if (account.n_priced > 0) explanation.row_price = account.row_price / static_cast<double>(account.n_priced);
  explanation.pass_price = ratio(account.pass_price, static_cast<double>(account.n_priced));
  const auto n_passes = static_cast<double>(account.n_draft_passes);
  explanation.draft_pass_ms = ratio(1e3 * explanation.draft_s, n_passes);
  explanation.predicted_draft_pass_ms = ratio(1e3 * account.predicted_draft_s, n_passes);
  return explanation;
}

std::string conclusion(const GenerationResult& result, const GenerateOptions& options) {
  const Explanation explanation = explain(result.stats);
  if (result.stats.speculation.rounds == 0) return nothing_drafted(result, explanation, options);
  if (!explanation.speedup.has_value()) return "Nothing was decoded but first tokens: there is nothing to compare.";
  if (is_unsure(explanation)) return cannot_be_told(explanation);
  const std::string text = overall(explanation, options);
  return is_lost(explanation.speedup) ? text : text + losing_drafters(result, explanation, options);
}

std::optional<std::string> draft_warning(const GenerationResult& result, const GenerateOptions& options) {
  if (result.stats.decode_steps < kTelling || options.request.speculation.drafter == DrafterChoice::kOff) return {};
  const Explanation explanation = explain(result.stats);
  if (result.stats.speculation.rounds == 0) {
    const bool is_a_choice = policy_of(options).expected != nullptr;
    if (!result.draft.has_value() || !is_a_choice) return std::nullopt;
    return nothing_drafted(result, explanation, options);
  }
  if (!explanation.speedup.has_value() || is_unsure(explanation)) return std::nullopt;
  if (is_lost(explanation.speedup)) return overall(explanation, options);
  const std::string text = losing_drafters(result, explanation, options);
  return text.empty() ? std::nullopt : std::optional(text.substr(1));
}

bool knows_costs(const GenerateOptions& options) { return policy_of(options).is_timed; }

std::string_view source_name(size_t source_idx) {
  static constexpr std::array<std::string_view, SpeculationAccount::kSources> kNames = {
      "n-gram of 2", "n-gram of 3", "n-gram of 4", "n-gram of 5+", "draft model"};
  return kNames.at(source_idx);
}

std::vector<double> acceptance_by_position(const DraftSourceSums& source) {
  std::vector<double> rates;
  for (size_t j = 0; j < source.reached_at.size() && source.reached_at[j] > 0; ++j) {
    rates.push_back(static_cast<double>(source.accepted_at[j]) / static_cast<double>(source.reached_at[j]));
  }
  return rates;
}

}  // namespace bass
