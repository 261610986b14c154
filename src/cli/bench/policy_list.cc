#include "cli/bench/policy_list.h"

#include <algorithm>

namespace bass {

std::vector<std::string> split_policies(std::string_view texts) {
  std::vector<std::string> pieces;
  for (size_t begin = 0; begin <= texts.size();) {
    const size_t end = std::min(texts.find(',', begin), texts.size());
    const std::string piece(texts.substr(begin, end - begin));
    const bool is_parameter = piece.find('=') < piece.find(':');
    if (is_parameter && !pieces.empty()) {
      pieces.back() += "," + piece;
    } else {
      pieces.push_back(piece);
    }
    begin = end + 1;
  }
  return pieces;
}

}  // namespace bass
