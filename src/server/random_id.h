// Names that no two answers or requests have.
#pragma once

#include <string>
#include <string_view>

namespace bass {

/// The prefix and 24 hexadecimal digits.
std::string random_id(std::string_view prefix);

}  // namespace bass
