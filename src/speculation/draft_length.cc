#include "speculation/draft_length.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/check.h"
#include "speculation/policies/bass.h"
#include "speculation/policies/fixed.h"
#include "speculation/policies/goodput.h"
#include "speculation/policies/off.h"
#include "speculation/policies/survival.h"

namespace bass {
namespace {

constexpr std::array<const DraftLengthPolicy*, 5> kPolicies{
    &kGoodputPolicy, &kBassPolicy, &kSurvivalPolicy, &kFixedPolicy, &kOffPolicy,
};

}  // namespace

std::span<const DraftLengthPolicy* const> draft_length_policies() { return kPolicies; }

std::string draft_length_usage() {
  std::string usage;
  for (const DraftLengthPolicy* policy : kPolicies) {
    if (!usage.empty()) usage += " | ";
    usage += policy->usage;
  }
  return usage;
}

namespace {
constexpr int kShortestMatch = 2, kLongestMatch = 5;  // kNgram2 to kNgram5
}

DraftSource ngram_source(int order) {
  return static_cast<DraftSource>(std::clamp(order, kShortestMatch, kLongestMatch) - kShortestMatch);
}

int ngram_order(DraftSource source) { return kShortestMatch + static_cast<int>(source); }

void choose_draft_lengths(const DraftLengthSpec& spec, const DraftLengthState& state, const StepCosts& costs,
                          const StepLoad& regular, std::span<DraftCandidate> candidates) {
  if (spec.policy->choose != nullptr) {
    spec.policy->choose(state, costs, regular, candidates);
    return;
  }
  for (DraftCandidate& candidate : candidates) candidate.len = std::min(candidate.max_len, state.len);
}

void advance_draft_length(const DraftLengthSpec& spec, DraftLengthState& state,
                          std::span<const DraftOutcome> outcomes) {
  if (spec.policy->learn != nullptr) {
    spec.policy->learn(state, outcomes);
  } else if (!outcomes.empty()) {
    state = spec.policy->next(spec, state, outcomes);
  }
}

DraftLengthState keep_draft_length_state(const DraftLengthSpec&, DraftLengthState state,
                                         std::span<const DraftOutcome>) {
  return state;
}

Result<int32_t> parse_draft_number(std::string_view what, std::string_view text, int32_t min, int32_t max) {
  int32_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const bool is_number = error == std::errc{} && stop == end;
  if (is_number && value >= min && value <= max) return value;
  return invalid_argument(fmt::format("{}: '{}' is not a whole number from {} to {}", what, text, min, max));
}

Result<DraftLengthSpec> parse_draft_length(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  const bool has_arguments = colon != std::string_view::npos;
  for (const DraftLengthPolicy* policy : kPolicies) {
    if (policy->name != name) continue;
    if (has_arguments && colon + 1 == text.size()) {
      return invalid_argument(fmt::format("draft length '{}': nothing follows the colon; use {}", text, policy->usage));
    }
    DraftLengthSpec spec;
    spec.policy = policy;
    BASS_RETURN_IF_ERROR(policy->parse(has_arguments ? text.substr(colon + 1) : std::string_view{}, spec));
    return spec;
  }
  return invalid_argument(fmt::format("draft length '{}' is unknown; use {}", text, draft_length_usage()));
}

}  // namespace bass
