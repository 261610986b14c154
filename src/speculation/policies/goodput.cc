#include "speculation/policies/goodput.h"

#include "base/check.h"
#include "speculation/policies/goodput_choice.h"
#include "speculation/policies/survival_estimate.h"

namespace bass {
namespace {

constexpr float kFirstHope = 0.5f;  // about as far as tasks' drafts are apart

Status parse(std::string_view arguments, DraftLengthSpec&) {
  if (arguments.empty()) return ok_status();
  return invalid_argument("draft length 'goodput' takes no parameters: it measures");
}

DraftLengthState start(const DraftLengthSpec& spec) {
  DraftLengthState state = start_survival(spec);
  state.goodput.hope = kFirstHope;
  return state;
}

}  // namespace

constexpr DraftLengthPolicy kGoodputPolicy{"goodput",
                                           "goodput",
                                           parse,
                                           start,
                                           keep_draft_length_state,
                                           choose_goodput,
                                           learn_survival,
                                           expected_accepted,
                                           true,
                                           goodput_wants_model};

}  // namespace bass
