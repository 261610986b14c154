#include "engine/policy_registry.h"

#include <algorithm>

namespace bass {

// When there are twice as many as were left last time: of a long queue each request may have a text of its own.
void PolicyRegistry::sweep() {
  constexpr size_t kMinStates = 16;
  if (shared_.size() < max_states_) return;
  std::erase_if(shared_, [](const auto& entry) { return is_unused(entry.second); });
  max_states_ = std::max(kMinStates, 2 * shared_.size());
}

bool PolicyRegistry::is_unused(const std::shared_ptr<PolicyState>& state) {
  return state == nullptr || (state.use_count() == 1 && !state->spec.policy->is_timed);
}

std::shared_ptr<PolicyState> PolicyRegistry::get(const std::string& text, const DraftLengthSpec& spec,
                                                 std::optional<uint64_t> fixed_seed) {
  const auto make = [&] { return std::make_shared<PolicyState>(PolicyState{spec, spec.policy->start(spec), {}}); };
  sweep();
  if (fixed_seed && !spec.policy->is_timed) return make();
  std::shared_ptr<PolicyState>& shared = shared_[{text, fixed_seed.has_value()}];
  if (is_unused(shared) || (fixed_seed && shared->is_full())) shared = make();
  if (fixed_seed && !shared->add_seed(*fixed_seed)) return make();
  return shared;
}

void PolicyRegistry::drop_step() noexcept {
  for (auto& [key, state] : shared_) {
    if (state == nullptr) continue;
    state->outcomes.clear();
    state->is_marked = false;
    state->is_used = false;
  }
}

}  // namespace bass
