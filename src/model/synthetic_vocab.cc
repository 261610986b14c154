// The vocabulary of a synthetic model.
#include <fmt/format.h>

#include "base/check.h"
#include "model/synthetic_model.h"
#include "text/byte_level.h"

namespace bass {
namespace {

constexpr int kNBytes = 256;
constexpr std::string_view kEndText = "<|endoftext|>";

/// Adds `left` + `right` as a token with its merge, unless there are n_tokens already.
void add_pair(const std::string& left, const std::string& right, size_t n_tokens, VocabData* vocab) {
  if (vocab->tokens.size() >= n_tokens) return;
  vocab->tokens.push_back(left + right);
  vocab->merges.push_back(fmt::format("{} {}", left, right));
}

}  // namespace

VocabData synthetic_vocab(int n_tokens) {
  BASS_CHECK(n_tokens > kNBytes);
  VocabData vocab;
  vocab.model = "gpt2";
  vocab.pre = "gpt-2";
  const ByteLevelMap map;
  for (int byte = 0; byte < kNBytes; ++byte) vocab.tokens.push_back(map.spell(static_cast<uint8_t>(byte)));
  const auto n_ordinary = static_cast<size_t>(n_tokens) - 1;
  std::vector<std::string> pairs;
  for (char first = 'a'; first <= 'z'; ++first) {
    for (char second = 'a'; second <= 'z'; ++second) {
      add_pair({first}, {second}, n_ordinary, &vocab);
      pairs.push_back({first, second});
    }
  }
  for (const std::string& left : pairs) {
    for (const std::string& right : pairs) add_pair(left, right, n_ordinary, &vocab);
  }
  vocab.token_types.assign(vocab.tokens.size(), static_cast<int32_t>(TokenType::kNormal));
  vocab.tokens.emplace_back(kEndText);
  vocab.token_types.push_back(static_cast<int32_t>(TokenType::kControl));
  vocab.bos_id = vocab.eos_id = static_cast<int32_t>(vocab.tokens.size() - 1);
  return vocab;
}

void pad_vocab(int n_tokens, VocabData* vocab) {
  if (vocab->token_types.empty()) {
    vocab->token_types.assign(vocab->tokens.size(), static_cast<int32_t>(TokenType::kNormal));
  }
  for (int i = 0; static_cast<int>(vocab->tokens.size()) < n_tokens; ++i) {
    vocab->tokens.push_back(fmt::format("[PAD{}]", i));
    vocab->token_types.push_back(static_cast<int32_t>(TokenType::kUnused));
  }
  if (!vocab->scores.empty()) vocab->scores.resize(vocab->tokens.size());
}

}  // namespace bass
