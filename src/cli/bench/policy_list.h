// Options that take several draft-length policies.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bass/status.h"

namespace bass {

/// "bass:l0=7,inc=2,fixed:3" -> "bass:l0=7,inc=2", "fixed:3": a parameter belongs to what stands before it.
std::vector<std::string> split_policies(std::string_view texts);
/// The same of the engine's policies. Error (kInvalidArgument): one that it does not have; named after `flag`.
Result<std::vector<std::string>> parse_policy_list(std::string_view flag, std::string_view texts);

}  // namespace bass
