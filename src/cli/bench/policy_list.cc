#include "cli/bench/policy_list.h"

#include <fmt/format.h>

#include <algorithm>

#include "speculation/draft_length.h"

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

Result<std::vector<std::string>> parse_policy_list(std::string_view flag, std::string_view texts) {
  std::vector<std::string> policies = split_policies(texts);
  for (const std::string& policy : policies) {
    const Status status = parse_draft_length(policy).status();
    if (!status.ok()) return Status(status.code(), fmt::format("{}: {}", flag, status.message()));
  }
  return policies;
}

}  // namespace bass
