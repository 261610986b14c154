#include "speculation/policies/survival.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/check.h"
#include "speculation/policies/survival_estimate.h"

namespace bass {
namespace {

constexpr float kLeastLevel = stop_level(ExpectedStops::kLevels - 1);

Status parse(std::string_view arguments, DraftLengthSpec& spec) {
  constexpr std::string_view kMin = "min=";
  if (arguments.empty()) return ok_status();
  if (!arguments.starts_with(kMin)) {
    return invalid_argument(
        fmt::format("draft length 'survival': '{}' is not a parameter; use {}", arguments, kSurvivalPolicy.usage));
  }
  const std::string_view text = arguments.substr(kMin.size());
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, spec.min_survival);
  const bool is_number = error == std::errc{} && stop == end;
  if (is_number && spec.min_survival >= 0 && spec.min_survival <= 1) return ok_status();
  return invalid_argument(fmt::format("draft length 'survival', min: '{}' is not a number from 0 to 1", text));
}

DraftLengthState start(const DraftLengthSpec& spec) {
  DraftLengthState state = start_survival(spec);
  state.min_survival = spec.min_survival;
  return state;
}

void choose(const DraftLengthState& state, const StepCosts&, const StepLoad&, std::span<DraftCandidate> candidates) {
  bool has_drafts = false;
  for (DraftCandidate& candidate : candidates) {
    ExpectedDraft draft =
        draft_above(state.goodput, candidate, nearest_stop_level(state.min_survival), /*uses_model=*/true);
    if (draft.source != DraftSource::kModel) {  // to the letter, not to the nearest level
      draft = ngram_above(state.goodput, draft.source, candidate.max_len, state.min_survival,
                          candidate.skills.ngram.offset);
    }
    if (state.min_survival < kLeastLevel && draft.source == DraftSource::kModel) {  // nothing is known of so little
      const bool is_model = candidate.source == DraftSource::kModel;
      draft.len = std::min(is_model ? candidate.max_len : candidate.max_model_len, GoodputState::kMaxLen);
    }
    set_draft(state.goodput, draft, state.min_survival, draft.len, &candidate);
    has_drafts |= candidate.len > 0;
  }
  if (!has_drafts && is_probe_due(state.goodput)) probe(state.goodput, candidates);
}

}  // namespace

constexpr DraftLengthPolicy kSurvivalPolicy{
    "survival", "survival[:min=0.2]", parse, start, keep_draft_length_state, choose, learn_survival, expected_accepted};

}  // namespace bass
