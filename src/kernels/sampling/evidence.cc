#include "kernels/sampling/evidence.h"

namespace bass {

void add_evidence(const RowSampler& sampler, const RowDistribution& p, const SamplingParams& params,
                  const DraftedToken& draft, TokenId regular_token, double* joint,
                  std::vector<DraftEvidence>* evidence) {
  DraftEvidence found;
  found.token = draft.token;
  double ratio = draft.token == regular_token ? 1 : 0;
  found.p = found.overlap = static_cast<float>(ratio);
  const bool compares_distributions = normalise_for_verification(params) == Normalise::kYes && !p.is_one_hot;
  if (compares_distributions) {
    if (!evidence->empty()) {
      const double mass = residual_mass(sampler, p, *joint, draft);
      evidence->back().block = static_cast<float>(block_acceptance(*joint, mass));
    }
    const double p_x = probability(p, draft.token);
    const double q_x = draft_probability(draft, draft.token);
    ratio = p_x / q_x;
    found.p = static_cast<float>(p_x);
    found.q = static_cast<float>(q_x);
    found.overlap = static_cast<float>(acceptance_chance(sampler, p, draft));
  }
  *joint = next_joint(*joint, ratio, 1);
  found.block = static_cast<float>(*joint);
  evidence->push_back(found);
}

}  // namespace bass
