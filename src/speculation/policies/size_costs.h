// What `goodput` asks the table of costs while it plans a step.
#pragma once

#include "speculation/step_prediction.h"

namespace bass::goodput {

// What is believed of steps by their rows, and of the draft model's passes. All options ask for the same few sizes, and
// an answer is a regression.
class SizeCosts {
 public:
  BASS_HD explicit SizeCosts(const StepCosts& costs) : costs_(&costs) {}

  struct Belief {
    double seconds = -1;  // without attention; below 0: not asked for yet
    double novelty = 0;
  };
  BASS_HD Belief of(int n_rows) {
    Belief belief = in_table(StepCosts::row_idx(n_rows));
    if (n_rows > StepCosts::kMaxRows) {
      belief.seconds *= times_beyond_table(belief.seconds, in_table(StepCosts::kMaxRows / 2).seconds, n_rows);
    }
    return belief;
  }
  // Seconds of a pass of the draft model.
  BASS_HD double pass_seconds(int n_drafting) {
    double& seconds = pass_seconds_[StepCosts::draft_size(1, n_drafting)];
    if (seconds == 0) seconds = predicted_draft_seconds(*costs_, 1, n_drafting);
    return seconds;
  }
  // Seconds that the draft model takes to read so many tokens; while that was not measured, at most what it takes to
  // draft them.
  BASS_HD double reading_seconds(int n_unread) {
    if (n_unread <= 0) return 0;
    if (costs_->catch_up_s > 0) return predicted_catch_up_seconds(*costs_, n_unread);
    if (token_s_ < 0) token_s_ = least_drafted_token_seconds(*costs_);
    return token_s_ * n_unread;
  }

 private:
  BASS_HD const Belief& in_table(int idx) {
    Belief& belief = beliefs_[idx];
    if (belief.seconds < 0) belief = {predicted_rows_seconds(*costs_, idx), step_novelty(*costs_, idx)};
    return belief;
  }

  const StepCosts* costs_;
  Belief beliefs_[StepCosts::kMaxRows + 1];
  double pass_seconds_[StepCosts::kDraftSizes] = {};  // 0: not asked for yet, or not known
  double token_s_ = -1;                               // of a drafted token; below 0: not asked for yet
};

}  // namespace bass::goodput
