#include "executor/step_profile.h"

namespace bass {

std::string_view step_part_name(StepPart part) {
  static constexpr std::array<std::string_view, kStepParts> kNames{
      "schedule",       "draft",     "embed",  "norm and quantise", "qkv",
      "rope, write kv", "attention", "output", "gate, up",          "down",
      "head",           "sample",    "commit"};
  return kNames[static_cast<size_t>(part)];
}

void StepProfile::end_part(StepPart part) { end_part_at(part, Clock::now()); }

void StepProfile::end_part(const TeamContext& context, StepPart part) {
  const Clock::time_point arrived = Clock::now();
  context.barrier();
  const Clock::time_point now = Clock::now();
  waits_[static_cast<size_t>(context.thread_idx())].seconds[index(part)] +=
      std::chrono::duration<double>(now - arrived).count();
  if (context.thread_idx() == 0) end_part_at(part, now);
}

void StepProfile::end_part_at(StepPart part, Clock::time_point now) {
  step_[index(part)].seconds += std::chrono::duration<double>(now - last_).count();
  last_ = now;
}

void StepProfile::end_step(bool is_decode) {
  if (is_decode) {
    ++n_steps_;
    for (size_t i = 0; i < kStepParts; ++i) {
      sums_[i].seconds += step_[i].seconds;
      sums_[i].work.add(step_[i].work);
      for (const Waits& thread : waits_) {
        sums_[i].waited_s += thread.seconds[i] / static_cast<double>(waits_.size());
      }
    }
  }
  step_ = {};
  for (Waits& thread : waits_) thread = {};
}

void StepProfile::reset() {
  n_steps_ = 0;
  sums_ = {};
}

}  // namespace bass
