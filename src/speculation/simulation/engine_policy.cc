#include "speculation/simulation/length_chooser.h"

namespace bass {
namespace {

class EnginePolicy final : public LengthChooser {
 public:
  EnginePolicy(const DraftLengthSpec& spec, const StepCosts& costs)
      : spec_(spec), state_(spec.policy->start(spec)), costs_(costs) {}

  [[nodiscard]] int max_len() const override { return state_.len; }
  void weigh(const StepLoad& regular, bool has_waiting, std::span<RunningSequence> sequences) override {
    weigh_tokens(costs_, regular, has_waiting, sequences);
  }
  void choose(const StepLoad& regular, std::span<DraftCandidate> candidates) override {
    choose_draft_lengths(spec_, state_, costs_, regular, candidates);
  }
  void learn(const StepCost& cost, int, std::span<const DraftOutcome> outcomes) override {
    learn_step_cost(cost, &costs_);
    advance_draft_length(spec_, state_, outcomes);
  }

 private:
  DraftLengthSpec spec_;
  DraftLengthState state_;
  StepCosts costs_;
};

}  // namespace

std::unique_ptr<LengthChooser> engine_policy(const DraftLengthSpec& spec, const StepCosts& costs) {
  return std::make_unique<EnginePolicy>(spec, costs);
}

}  // namespace bass
