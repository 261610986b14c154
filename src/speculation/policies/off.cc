#include "speculation/policies/off.h"

namespace bass {
namespace {

Status parse_off(std::string_view arguments, DraftLengthSpec&) {
  return arguments.empty() ? ok_status() : invalid_argument("draft length 'off' takes no parameters");
}

DraftLengthState start_off(const DraftLengthSpec&) { return {}; }

}  // namespace

constexpr DraftLengthPolicy kOffPolicy{"off", "off", parse_off, start_off, keep_draft_length_state};

}  // namespace bass
