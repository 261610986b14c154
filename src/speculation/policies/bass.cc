#include "speculation/policies/bass.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/check.h"

namespace bass {
namespace {

struct Parameter {
  std::string_view name;
  int32_t DraftLengthSpec::*value;
};

constexpr std::array<Parameter, 4> kParameters{{
    {"l0", &DraftLengthSpec::initial},
    {"inc", &DraftLengthSpec::increment},
    {"max", &DraftLengthSpec::max},
    {"div", &DraftLengthSpec::shrink_divisor},
}};

Status parse_parameter(std::string_view item, DraftLengthSpec& spec) {
  const size_t equals = item.find('=');
  const std::string_view name = item.substr(0, equals);
  for (const Parameter& parameter : kParameters) {
    if (parameter.name != name || equals == std::string_view::npos) continue;
    BASS_ASSIGN_OR_RETURN(spec.*parameter.value, parse_draft_number(fmt::format("draft length 'bass', {}", name),
                                                                    item.substr(equals + 1), 1, kMaxDraftLen));
    return ok_status();
  }
  return invalid_argument(fmt::format("draft length 'bass': '{}' is not a parameter; use {}", item, kBassPolicy.usage));
}

Status parse_bass(std::string_view arguments, DraftLengthSpec& spec) {
  const bool has_initial = arguments.starts_with("l0=") || arguments.find(",l0=") != std::string_view::npos;
  for (bool more = !arguments.empty(); more;) {
    const size_t comma = arguments.find(',');
    BASS_RETURN_IF_ERROR(parse_parameter(arguments.substr(0, comma), spec));
    more = comma != std::string_view::npos;
    if (more) arguments.remove_prefix(comma + 1);
  }
  if (!has_initial) spec.initial = std::min(spec.initial, spec.max);
  if (spec.initial <= spec.max) return ok_status();
  return invalid_argument(
      fmt::format("draft length 'bass': l0={} is above max={}; lower l0 or raise max", spec.initial, spec.max));
}

DraftLengthState start_bass(const DraftLengthSpec& spec) { return {spec.initial, 0}; }

DraftLengthState next(const DraftLengthSpec& spec, DraftLengthState state, std::span<const DraftOutcome> outcomes) {
  const BassLength length = next_bass_length(spec, {state.len, state.n_shrinks}, outcomes);
  return {length.len, length.n_shrinks};
}

}  // namespace

constexpr DraftLengthPolicy kBassPolicy{"bass", "bass[:l0=7,inc=2,max=32,div=10]", parse_bass, start_bass, next};

}  // namespace bass
