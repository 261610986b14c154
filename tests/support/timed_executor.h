// Steps that take as long as a test says: what pays then does not depend on the machine that the test runs on.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine_core.h"
#include "support/engine_run.h"

namespace bass::testing {

/// Seconds that a step's pass of the main model takes at least, by how many steps there were before and by its rows.
/// Called by the engine's thread.
using Pace = std::function<double(int step, int n_rows)>;

inline Pace constant_pace(double seconds) {
  return [seconds](int /*step*/, int /*n_rows*/) { return seconds; };
}

/// What a step did.
struct TimedStep {
  int n_segments = 0;  // of prompts and of sequences
  int n_drafted = 0;   // tokens that were verified
  int n_rows = 0;
};

/// Another executor at a given pace. steps: gets one entry for each step, if not null; both must outlive it.
class TimedExecutor final : public Executor {
 public:
  TimedExecutor(std::unique_ptr<Executor> executor, const Pace* pace, std::vector<TimedStep>* steps)
      : executor_(std::move(executor)), pace_(pace), steps_(steps) {}

  Ticket submit(const StepPlan& plan) override {
    begin_ = Clock::now();
    n_rows_ = 0;
    for (const SegmentPlan& segment : plan.segments) n_rows_ += static_cast<int>(segment.tokens.size());
    n_segments_ = static_cast<int>(plan.segments.size());
    return executor_->submit(plan);
  }
  const StepResult& wait(Ticket ticket) override {
    const StepResult& result = executor_->wait(ticket);
    TimedStep step{n_segments_, 0};
    for (int i = 0; i < n_segments_; ++i) step.n_drafted += result.segments[static_cast<size_t>(i)].n_drafted;
    const double draft_s = result.draft_times.first_s + result.draft_times.later_s;
    step.n_rows = n_rows_ + step.n_drafted;
    const double seconds = draft_s + (*pace_)(n_steps_++, step.n_rows);
    while (std::chrono::duration<double>(Clock::now() - begin_).count() < seconds) {
    }
    if (steps_ != nullptr) steps_->push_back(step);
    return result;
  }

  std::unique_ptr<PromptHead> make_prompt_head(std::span<const TokenId> prompt) override {
    return executor_->make_prompt_head(prompt);
  }
  Status populate_kv(int n_pages) override { return executor_->populate_kv(n_pages); }
  [[nodiscard]] bool divides_shared_texts() const override { return executor_->divides_shared_texts(); }
  [[nodiscard]] bool works_beside_host() const override { return executor_->works_beside_host(); }
  [[nodiscard]] std::string isa_name() const override { return executor_->isa_name(); }
  [[nodiscard]] int page_len() const override { return executor_->page_len(); }
  [[nodiscard]] int64_t main_page_bytes() const override { return executor_->main_page_bytes(); }
  [[nodiscard]] int64_t draft_page_bytes() const override { return executor_->draft_page_bytes(); }
  [[nodiscard]] int max_kept_distributions() const override { return executor_->max_kept_distributions(); }
  [[nodiscard]] bool can_look() const override { return executor_->can_look(); }
  [[nodiscard]] int64_t step_weight_bytes() const override { return executor_->step_weight_bytes(); }

 private:
  using Clock = std::chrono::steady_clock;

  std::unique_ptr<Executor> executor_;
  const Pace* pace_;
  std::vector<TimedStep>* steps_;
  Clock::time_point begin_;
  int n_steps_ = 0;
  int n_segments_ = 0;  // of the step that runs
  int n_rows_ = 0;      // of that, without drafts
};

/// An engine whose steps take that long.
inline std::unique_ptr<Engine> load_timed_engine(const EngineOptions& options, const Pace* pace,
                                                 std::vector<TimedStep>* steps = nullptr) {
  auto engine = EngineCore::create(options, [&](std::unique_ptr<Executor> made) {
    return std::make_unique<TimedExecutor>(std::move(made), pace, steps);
  });
  EXPECT_TRUE(engine.ok()) << engine.status().message();
  return engine.ok() ? std::move(engine).value() : nullptr;
}

}  // namespace bass::testing
