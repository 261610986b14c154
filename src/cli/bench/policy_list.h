// Options that take several draft-length policies.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace bass {

/// "bass:l0=7,inc=2,fixed:3" -> "bass:l0=7,inc=2", "fixed:3": a parameter belongs to what stands before it.
std::vector<std::string> split_policies(std::string_view texts);

}  // namespace bass
