// Prompts for tiny models, whose tokens mean nothing.
#pragma once

#include <vector>

#include "bass/request.h"

namespace bass::testing {

/// len tokens; another idx, another prompt.
inline std::vector<TokenId> prompt_of(int idx, int len) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < len; ++i) tokens.push_back(3 + (idx * 131 + i * i * 17 + i * 7) % 280);
  return tokens;
}

}  // namespace bass::testing
