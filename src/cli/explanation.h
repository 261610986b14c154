// What --explain-speculation says: where decoding's time went, what drafts were expected to bring, and whether they
// paid.
#pragma once

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "cli/results.h"
#include "engine/options.h"

namespace bass {

/// Ratios and sums of an engine's account. What cannot be told is none.
struct Explanation {
  // All of the time of decoding, in seconds.
  double draft_s = 0;          ///< the draft model
  double drafted_steps_s = 0;  ///< the main model's steps that verified drafts
  double regular_steps_s = 0;
  double other_s = 0;  ///< handing out tokens

  double decode_s = 0;
  double regular_s = 0;  ///< what regular decoding would have taken for the same tokens
  std::optional<double> speedup;
  std::array<std::optional<double>, SpeculationAccount::kKinds> speedup_of;           ///< of each kind of step
  std::array<std::optional<double>, SpeculationAccount::kKinds> expected_speedup_of;  ///< by what was expected of it
  bool is_guess =
      false;  ///< regular steps of these sizes were hardly measured: regular_s is too high, who knows how much

  std::optional<double> step_error;  ///< mean distance of a step's prediction, as a part of the step
  // Of a drafted token, in tokens of regular decoding (SpeculationAccount).
  std::optional<double> row_price;
  std::optional<double> pass_price;  ///< none: there is no draft model, or no pass of it was measured

  std::optional<double> draft_pass_ms;
  std::optional<double> predicted_draft_pass_ms;
};

Explanation explain(const EngineStats& stats);
/// All that steps of a kind took.
double seconds_of(const StepKindSums& kind);

/// Did it pay? In sentences, with what to do if not.
std::string conclusion(const GenerationResult& result, const GenerateOptions& options);

/// The same for a summary: drafts that did not pay, or a draft model that was never used, in a run that is long enough
/// to tell. None where there is nothing to be done.
std::optional<std::string> draft_warning(const GenerationResult& result, const GenerateOptions& options);

/// Whether the policy of these options goes by what steps cost.
bool knows_costs(const GenerateOptions& options);

/// "draft model", "n-gram, match of 2"
std::string_view source_name(size_t source_idx);
/// Of accepted and reached tokens at each position, as far as any was reached.
std::vector<double> acceptance_by_position(const DraftSourceSums& source);

/// The report for people: lines that end with a line feed.
std::string explanation_text(const GenerationResult& result, const GenerateOptions& options);
/// The same as an object, for `speculation.explanation`.
nlohmann::ordered_json explanation_json(const GenerationResult& result, const GenerateOptions& options);

}  // namespace bass
