#include "engine/policy_registry.h"

namespace bass {

std::shared_ptr<PolicyState> PolicyRegistry::get(const std::string& text, const DraftLengthSpec& spec,
                                                 std::optional<uint64_t> fixed_seed) {
  const auto make = [&] { return std::make_shared<PolicyState>(PolicyState{spec, spec.policy->start(spec), {}}); };
  std::erase_if(shared_, [](const auto& entry) {
    return entry.second == nullptr || (entry.second.use_count() == 1 && !entry.second->spec.policy->is_timed);
  });
  if (fixed_seed && !spec.policy->is_timed) return make();
  std::shared_ptr<PolicyState>& shared = shared_[{text, fixed_seed.has_value()}];
  if (shared == nullptr || (fixed_seed && shared->is_full())) shared = make();
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
