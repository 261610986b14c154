// Where a step's time goes: the parts of a step, and a profile that executor and engine fill while they run. Whoever
// wants no profile passes none; all that is left then is a test of a pointer at each barrier.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/thread_team.h"
#include "bass/work.h"

namespace bass {

/// The parts of a step, in their order. kNorm and what follows it come once a layer.
enum class StepPart : uint8_t {
  kPlan,  // scheduling, and what the engine does between two steps
  kDraft,
  kEmbed,
  kNorm,
  kQkv,
  kRopeAndWriteKv,
  kAttention,
  kOutput,
  kGateUp,
  kDown,
  kHead,
  kSample,  // verification too
  kCommit,
};
inline constexpr size_t kStepParts = 13;
std::string_view step_part_name(StepPart part);

using WorkByPart = std::array<Work, kStepParts>;

/// One part of a number of steps.
struct PartSums {
  double seconds = 0;
  double waited_s = 0;  // of these, at the barrier in its end; mean over the threads
  Work work;
};

/// Times of decode steps. Every moment from the end of one step to the end of the next belongs to one part: to the one
/// that ends next. Thread 0 of the team, which is also the thread that plans and commits, takes the time.
/// Read it while no step runs.
class StepProfile {
 public:
  /// Room for the team's waiting times. Before the first step.
  void set_n_threads(int n_threads) { waits_.resize(static_cast<size_t>(n_threads)); }

  /// Ends a part. Thread 0.
  void end_part(StepPart part);
  /// Ends a part at a barrier. All threads of the team.
  void end_part(const TeamContext& context, StepPart part);
  void add_work(StepPart part, const Work& work) { step_[index(part)].work.add(work); }

  /// Ends the step. Only those that carry no prompt tokens are counted.
  void end_step(bool is_decode);

  [[nodiscard]] int64_t n_steps() const { return n_steps_; }
  [[nodiscard]] const PartSums& part(StepPart part) const { return sums_[index(part)]; }
  void reset();

 private:
  using Clock = std::chrono::steady_clock;
  using SumsByPart = std::array<PartSums, kStepParts>;
  struct alignas(64) Waits {  // of one thread in the current step
    std::array<double, kStepParts> seconds{};
  };
  static size_t index(StepPart part) { return static_cast<size_t>(part); }
  void end_part_at(StepPart part, Clock::time_point now);

  Clock::time_point last_{};  // end of the last part
  SumsByPart step_{};         // the current step
  std::vector<Waits> waits_;  // [n_threads]
  int64_t n_steps_ = 0;
  SumsByPart sums_{};
};

/// Ends a part at a barrier, on all threads of the team. profile: may be null
inline void end_part(StepProfile* profile, const TeamContext& context, StepPart part) {
  if (profile == nullptr) {
    context.barrier();
  } else {
    profile->end_part(context, part);
  }
}

}  // namespace bass
