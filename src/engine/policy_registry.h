// Which requests share the state of a draft-length policy.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "engine/sequence.h"

namespace bass {

/// Requests with the same --draft-length share a state, so that Algorithm 1 sees its whole batch; it begins anew when
/// the last of them has ended, but for a policy that measures times: that keeps what it knows of the drafts.
///
/// A request whose seed fixes the noise that decides about acceptance has a state for itself, so that its lengths do
/// not depend on what else runs. Where they do so anyway, as lengths depend on times, such requests share one among
/// themselves, each seed once: what was learnt from the same noise would let a length depend on what it decides about
/// (also from `match`, whose noise is that of the tokens which other rules draw behind a draft).
class PolicyRegistry {
 public:
  /// text: of --draft-length, which `spec` was read from. fixed_seed: of a request of the second kind
  std::shared_ptr<PolicyState> get(const std::string& text, const DraftLengthSpec& spec,
                                   std::optional<uint64_t> fixed_seed);

  /// Forgets what a step has left that did not end.
  void drop_step() noexcept;

 private:
  void sweep();
  /// By no request, and it knows nothing that is to be kept.
  static bool is_unused(const std::shared_ptr<PolicyState>& state);

  size_t max_states_ = 0;  // before those that are unused are looked for
  std::map<std::pair<std::string, bool>, std::shared_ptr<PolicyState>> shared_;  // second: of fixed seeds
};

}  // namespace bass
