// What a step has come to, segment by segment: its tokens, what was accepted, and what policies learn from.
#include "executor/step_sampling.h"

namespace bass {

void StepSampling::fail(const Status& error) {
  result_.work = {};
  for (size_t i = 0; i < plan_->segments.size(); ++i) {
    SegmentResult& result = result_.segments[i];
    result.n_drafted = result.n_draft_cached = 0;
    result.failed = true;
    result.error = error;
  }
}

void StepSampling::collect() {
  for (size_t i = 0; i < plan_->segments.size(); ++i) {
    result_.segments[i].n_drafted = drafts_[i].n_verified();
    result_.segments[i].confidences.assign(drafts_[i].confidences.begin(),
                                           drafts_[i].confidences.begin() + drafts_[i].n_confidences);
    result_.segments[i].n_draft_cached =
        shape_.draft_reads_taps ? 0 : std::max({drafts_[i].n, drafts_[i].n_confidences, 1}) - 1;
  }
  int last_segment = -1;
  for (size_t i = 0; i < wanted_.size(); ++i) {
    const WantedRow& wanted = wanted_[i];
    if (!wanted.is_decode) {
      result_.segments[static_cast<size_t>(wanted.segment)].failed |= verdicts_[i].is_degenerate;
    } else if (wanted.segment != last_segment) {
      last_segment = wanted.segment;
      const auto segment = static_cast<size_t>(wanted.segment);
      if (traces_drafts_) {
        collect_decode(wanted.segment, i);
        continue;
      }
      if (is_judged_as_block(plan_->segments[segment].sampling)) {
        const BlockVerification& block = block_rounds_[segment];
        verdicts_[i + static_cast<size_t>(block.round.n_accepted)] = block.stop;
      }
      if (scripted_acceptance_) script_verdicts(wanted.segment, i);
      collect_decode(wanted.segment, i);
      collect_labels(wanted.segment, i);
      collect_look(wanted.segment, i);
    }
  }
}

// The numbers that `rejection` compares with p / q decide alone (EngineOptions).
bool StepSampling::is_scripted_to_accept(int segment_idx, int draft_idx) const {
  const SamplingParams& params = plan_->segments[static_cast<size_t>(segment_idx)].sampling;
  const uint32_t bits = accept_stream(params, round_position(segment_idx, draft_idx)).bits(0);
  return uniform_open(bits) < double{*scripted_acceptance_};
}

void StepSampling::script_verdicts(int segment_idx, size_t first_wanted) {
  const Draft& draft = drafts_[static_cast<size_t>(segment_idx)];
  RowVerdict* verdict = &verdicts_[first_wanted];
  float* chance = &chances_[first_wanted];
  *chance = *scripted_acceptance_;  // of a look too
  for (int k = 0; k < draft.n_verified(); ++k, ++verdict) {
    *chance++ = *scripted_acceptance_;
    verdict->accepted = is_scripted_to_accept(segment_idx, k);
    if (!verdict->accepted) return;
    verdict->token = draft.tokens[static_cast<size_t>(k)];
  }
  verdict->accepted = false;
}

void StepSampling::collect_decode(int segment_idx, size_t first_wanted) {
  SegmentResult& result = result_.segments[static_cast<size_t>(segment_idx)];
  for (int k = 0;; ++k) {
    const RowVerdict& verdict = verdicts_[first_wanted + static_cast<size_t>(k)];
    TokenOrigin origin = TokenOrigin::kAccepted;
    if (!verdict.accepted) {
      origin = result.n_drafted == 0  ? TokenOrigin::kRegular
               : k < result.n_drafted ? TokenOrigin::kCorrection
                                      : TokenOrigin::kBonus;
    }
    result.failed |= verdict.is_degenerate;
    result.tokens.push_back({verdict.token, verdict.logprob, origin});
    if (!verdict.accepted) return;  // of the extra row too
    ++result.n_accepted;
  }
}

// Under `block` a token behind a rejected one may be accepted in the end; it counts by the chance p_i of that.
void StepSampling::collect_labels(int segment_idx, size_t first_wanted) {
  SegmentResult& result = result_.segments[static_cast<size_t>(segment_idx)];
  const SamplingParams& params = plan_->segments[static_cast<size_t>(segment_idx)].sampling;
  if (!knows_chances(params)) return;
  const bool is_block = is_judged_as_block(params);
  double weight = 1;
  for (int k = 0; k < result.n_drafted && weight > 0; ++k) {
    const size_t row = first_wanted + static_cast<size_t>(k);
    result.labels.push_back({chances_[row], static_cast<float>(weight)});
    if (is_block) {
      const BlockRow& seen = looked_at_[row].row;
      weight = next_joint(weight, seen.p_x, seen.q_x);
    } else {
      weight = k < result.n_accepted ? 1 : 0;
    }
  }
}

void StepSampling::collect_look(int segment_idx, size_t first_wanted) {
  const Draft& draft = drafts_[static_cast<size_t>(segment_idx)];
  if (!draft.is_look || draft.n == 0) return;
  SegmentResult& result = result_.segments[static_cast<size_t>(segment_idx)];
  if (result.failed) return;
  result.n_looked_at = 1;
  const bool agrees =
      scripted_acceptance_ ? is_scripted_to_accept(segment_idx, 0) : result.tokens.front().id == draft.tokens.front();
  result.n_agreed = agrees ? 1 : 0;
  if (knows_chances(plan_->segments[static_cast<size_t>(segment_idx)].sampling)) {
    result.labels.push_back({chances_[first_wanted], 1.0f});
  }
}

}  // namespace bass
