// What tests of the scheduler share: requests of a tiny model, and an executor that runs nothing.
#pragma once

#include <gtest/gtest.h>

#include <list>
#include <memory>
#include <string>

#include "engine/policy_registry.h"
#include "engine/scheduler.h"
#include "model/model_file.h"
#include "text/tokenizer.h"

namespace bass::testing {

/// Of the scheduler's own questions; it runs nothing.
class NoExecutor final : public Executor {
 public:
  Ticket submit(const StepPlan&) override { return 0; }
  const StepResult& wait(Ticket) override { return result_; }
  std::unique_ptr<PromptHead> make_prompt_head(std::span<const TokenId>) override { return nullptr; }
  [[nodiscard]] std::string isa_name() const override { return "none"; }
  [[nodiscard]] int page_len() const override { return kCpuPageLen; }
  [[nodiscard]] int64_t main_page_bytes() const override { return 0; }
  [[nodiscard]] int64_t draft_page_bytes() const override { return 0; }
  [[nodiscard]] int max_kept_distributions() const override { return 0; }
  [[nodiscard]] int64_t step_weight_bytes() const override { return 0; }

 private:
  StepResult result_;
};

class SchedulerTest : public ::testing::Test {
 protected:
  static constexpr int kPromptLen = 20;

  std::unique_ptr<RequestState> request(const std::string& draft_length, int n_samples = 1, int max_tokens = 50) {
    auto state = std::make_unique<RequestState>();
    state->id = ++last_id_;
    state->draft_length = parse_draft_length(draft_length).value();
    state->policy = policies_.get(draft_length, state->draft_length, std::nullopt);
    state->prompt.assign(kPromptLen, 5);
    state->max_text_len = kPromptLen + max_tokens;
    state->prefix_len = state->shared_len();
    state->uses_draft_model = true;
    for (int i = 0; i < n_samples; ++i) {
      state->choices.push_back(
          std::make_unique<Sequence>(state.get(), i, StreamDetokenizer(*tokenizer_), StopMatcher::create({}).value()));
    }
    return state;
  }

  std::list<std::unique_ptr<RequestState>> requests(const std::string& draft_length, int n) {
    std::list<std::unique_ptr<RequestState>> all;
    for (int i = 0; i < n; ++i) all.push_back(request(draft_length));
    return all;
  }

  static void set_prompt_len(RequestState* state, int len) {
    const int n_new = state->max_text_len - static_cast<int>(state->prompt.size());
    state->prompt.assign(static_cast<size_t>(len), 5);
    state->max_text_len = len + n_new;
    state->prefix_len = state->shared_len();
  }

  // Gives the scheduler requests, whose prompts are read in one step. The requests' states, which it owns.
  std::vector<RequestState*> start(std::list<std::unique_ptr<RequestState>> all, int max_step_tokens,
                                   Scheduler* scheduler) {
    std::vector<RequestState*> states;
    for (const auto& state : all) states.push_back(state.get());
    scheduler->add(&all);
    StepPlan plan;
    std::vector<SegmentOwner> owners;
    scheduler->schedule(max_step_tokens, &plan, &owners);
    for (RequestState* state : states) {
      state->main_prefix.set_len(state->prefix_len);
      if (state->draft_reads_prompt) state->draft_prefix.set_len(state->prefix_len);
    }
    return states;
  }

  StepCosts costs_;
  NoExecutor executor_;

 private:
  ModelFile file_ = load_model_file(BASS_TEST_DATA "/tiny/tiny_gqa_tied_q4_1.gguf").value();
  std::unique_ptr<Tokenizer> tokenizer_ = Tokenizer::create(file_.vocab).value();
  PolicyRegistry policies_;
  RequestId last_id_ = 0;
};

}  // namespace bass::testing
