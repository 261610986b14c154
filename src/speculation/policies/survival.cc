#include "speculation/policies/survival.h"

#include <fmt/format.h>

#include <charconv>

#include "base/check.h"
#include "speculation/policies/survival_choice.h"
#include "speculation/policies/survival_estimate.h"

namespace bass {
namespace {

Status parse_survival(std::string_view arguments, DraftLengthSpec& spec) {
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

DraftLengthState start_with_threshold(const DraftLengthSpec& spec) {
  DraftLengthState state = start_survival(spec);
  state.min_survival = spec.min_survival;
  return state;
}

}  // namespace

constexpr DraftLengthPolicy kSurvivalPolicy{"survival",           "survival[:min=0.2]",    parse_survival,
                                            start_with_threshold, keep_draft_length_state, choose_survival,
                                            learn_survival,       expected_accepted};

}  // namespace bass
