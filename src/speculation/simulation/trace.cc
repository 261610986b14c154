#include "speculation/simulation/trace.h"

namespace bass {
namespace {

double expected_by_rejection(std::span<const DraftEvidence> drafts) {
  double sum = 0;
  double product = 1;
  for (const DraftEvidence& draft : drafts) sum += product *= acceptance_probability(draft.p, draft.q);
  return sum;
}

}  // namespace

double expected_accepted(VerifyRule rule, std::span<const DraftEvidence> drafts) {
  if (rule != VerifyRule::kBlock) return expected_by_rejection(drafts);
  // P(tau >= i) = 1 - product over j >= i of (1 - h_j)
  double joint = 1;
  for (const DraftEvidence& draft : drafts) joint = next_joint(joint, draft.p, draft.q);
  double sum = 0;
  double none_accepted = 1;
  for (size_t i = drafts.size(); i-- > 0;) {
    none_accepted *= 1 - (i + 1 < drafts.size() ? drafts[i].block : joint);
    sum += 1 - none_accepted;
  }
  return sum;
}

double expected_block_accepted(std::span<const DraftEvidence> drafts) {
  double sum = 0;
  double joint = 1;
  for (const DraftEvidence& draft : drafts) sum += joint = next_joint(joint, draft.p, draft.q);
  return sum;
}

}  // namespace bass
