// Bytes as the goldens write them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bass::testing {

/// Of an even number of hexadecimal digits.
inline std::vector<uint8_t> from_hex(const std::string& digits) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i < digits.size(); i += 2)
    bytes.push_back(static_cast<uint8_t>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  return bytes;
}

}  // namespace bass::testing
