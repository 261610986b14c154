#include "cli/explanation.h"
#include "cli/report.h"

namespace bass {
namespace {

using Json = nlohmann::ordered_json;

Json kind_json(const StepKindSums& kind, const std::optional<double>& speedup,
               const std::optional<double>& expected_speedup) {
  return {{"steps", kind.n_steps},         {"tokens", kind.n_tokens},
          {"draft_model_s", kind.draft_s}, {"step_s", kind.step_s},
          {"other_s", kind.rest_s},        {"regular_decoding_s", kind.regular_s},
          {"speedup", nullable(speedup)},  {"expected_speedup", nullable(expected_speedup)}};
}

Json sizes_json(const SpeculationAccount& account) {
  Json sizes = Json::array();
  for (size_t i = 0; i < account.sizes.size(); ++i) {
    const StepSizeSums& size = account.sizes[i];
    if (size.n_steps == 0) continue;
    const bool has_limit = i + 1 < account.sizes.size();
    const double per_step = 1e3 / static_cast<double>(size.n_steps);
    sizes.push_back({{"rows",
                      {i == 0 ? 1 : SpeculationAccount::kSizes[i - 1] + 1,
                       has_limit ? Json(SpeculationAccount::kSizes[i]) : Json(nullptr)}},
                     {"mean_rows", static_cast<double>(size.n_rows) / static_cast<double>(size.n_steps)},
                     {"steps", size.n_steps},
                     {"ms", size.step_s * per_step},
                     {"predicted_ms", size.predicted_s * per_step}});
  }
  return sizes;
}

Json sources_json(const SpeculationAccount& account) {
  Json sources = Json::array();
  for (size_t i = 0; i < account.sources.size(); ++i) {
    const DraftSourceSums& source = account.sources[i];
    if (source.rounds == 0) continue;
    const bool is_expected = source.n_expected > 0;
    sources.push_back({{"source", source_name(i)},
                       {"rounds", source.rounds},
                       {"drafted", source.drafted},
                       {"accepted", source.accepted},
                       {"expected", is_expected ? Json(source.expected) : Json(nullptr)},
                       {"accepted_of_expected", is_expected ? Json(source.accepted_of_expected) : Json(nullptr)},
                       {"acceptance_by_position", acceptance_by_position(source)}});
  }
  return sources;
}

}  // namespace

Json explanation_json(const GenerationResult& result, const GenerateOptions& options) {
  const SpeculationAccount& account = result.stats.account;
  const Explanation explanation = explain(result.stats);
  const auto kind = [&](SpeculationAccount::Kind i) {
    return kind_json(account.kinds[i], explanation.speedup_of[i], explanation.expected_speedup_of[i]);
  };
  return {{"conclusion", conclusion(result, options)},
          {"time",
           {{"draft_model_s", explanation.draft_s},
            {"drafted_steps_s", explanation.drafted_steps_s},
            {"regular_steps_s", explanation.regular_steps_s},
            {"other_s", explanation.other_s}}},
          {"regular_decoding",
           {{"estimated_s", explanation.regular_s},
            {"speedup", nullable(explanation.speedup)},
            {"is_guess", explanation.is_guess}}},
          {"steps",
           {{"regular", kind(SpeculationAccount::kRegular)},
            {"ngram", kind(SpeculationAccount::kNgram)},
            {"model", kind(SpeculationAccount::kModel)}}},
          {"not_expected_to_pay", {{"steps", account.n_unpromising}, {"seconds", account.unpromising_s}}},
          {"prediction",
           {{"mean_step_error", nullable(explanation.step_error)},
            {"by_rows", sizes_json(account)},
            {"draft_passes", account.n_draft_passes},
            {"draft_pass_ms", nullable(explanation.draft_pass_ms)},
            {"predicted_draft_pass_ms", nullable(explanation.predicted_draft_pass_ms)}}},
          {"price", {{"row", nullable(explanation.row_price)}, {"draft_pass", nullable(explanation.pass_price)}}},
          {"sources", sources_json(account)}};
}

}  // namespace bass
