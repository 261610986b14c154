#include "executor/cpu/prompt_head.h"

#include <algorithm>

namespace bass::cpu {

std::vector<int32_t> tokens_beside(std::span<const int32_t> vocabulary, std::span<const TokenId> prompt,
                                   size_t max_tokens) {
  std::vector<int32_t> ids;  // ascending
  for (auto token = prompt.rbegin(); token != prompt.rend() && ids.size() < max_tokens; ++token) {
    const auto place = std::lower_bound(ids.begin(), ids.end(), *token);
    if (place != ids.end() && *place == *token) continue;
    if (!std::binary_search(vocabulary.begin(), vocabulary.end(), *token)) ids.insert(place, *token);
  }
  return ids;
}

}  // namespace bass::cpu
