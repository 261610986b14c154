#include "speculation/policies/fixed.h"

#include "base/check.h"

namespace bass {
namespace {

Status parse_fixed(std::string_view arguments, DraftLengthSpec& spec) {
  if (arguments.empty()) {
    return invalid_argument("draft length 'fixed' needs the number of tokens to draft, for example fixed:4");
  }
  BASS_ASSIGN_OR_RETURN(spec.fixed_len, parse_draft_number("draft length 'fixed'", arguments, 0, kMaxDraftLen));
  return ok_status();
}

DraftLengthState start_fixed(const DraftLengthSpec& spec) { return {spec.fixed_len, 0}; }

}  // namespace

constexpr DraftLengthPolicy kFixedPolicy{"fixed", "fixed:K", parse_fixed, start_fixed, keep_draft_length_state};

}  // namespace bass
