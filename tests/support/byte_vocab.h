// Small byte-level vocabularies for tests.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/byte_level.h"
#include "text/vocab.h"

namespace bass::testing {

/// Tokens 0-255: the bytes. Then a token for each merge, then the control tokens. Rules "smollm".
inline VocabData make_byte_vocab(const std::vector<std::string>& merges = {},
                                 const std::vector<std::string>& control_tokens = {}) {
  VocabData vocab;
  vocab.model = "gpt2";
  vocab.pre = "smollm";
  const ByteLevelMap map;
  for (int byte = 0; byte < 256; ++byte) vocab.tokens.push_back(map.spell(static_cast<uint8_t>(byte)));
  for (const std::string& merge : merges) {
    std::string joined = merge;
    joined.erase(joined.find(' '), 1);
    vocab.tokens.push_back(joined);
  }
  vocab.token_types.assign(vocab.tokens.size(), static_cast<int32_t>(TokenType::kNormal));
  vocab.merges = merges;
  for (const std::string& text : control_tokens) {
    vocab.tokens.push_back(text);
    vocab.token_types.push_back(static_cast<int32_t>(TokenType::kControl));
  }
  return vocab;
}

}  // namespace bass::testing
