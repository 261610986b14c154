// Rewrites a text before it is cut into pieces.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bass/status.h"
#include "text/byte_trie.h"
#include "text/charsmap.h"
#include "text/regex.h"
#include "text/tokenizer_rules.h"

namespace bass {

/// Bytes that are no valid UTF-8 stay as they are; only SentencePiece's step turns each of them into U+FFFD.
/// Thread-safe after construction.
class Normalizer {
 public:
  /// `user_defined`: texts that SentencePiece's step leaves alone. Errors: broken expressions or charsmaps.
  static Result<Normalizer> create(const std::vector<NormalizeStep>& steps, const ByteTrie* user_defined);

  [[nodiscard]] bool is_identity() const { return steps_.empty(); }

  /// Errors: a text that grows beyond 2 GiB or takes too many steps.
  [[nodiscard]] Result<std::string> apply(std::string text) const;

 private:
  struct Step {
    NormalizeStep rule;
    std::unique_ptr<Regex> regex;  // kReplace by an expression
    Charsmap charsmap;
  };

  [[nodiscard]] Status apply_step(const Step& step, std::string& text) const;

  std::vector<Step> steps_;
  const ByteTrie* user_defined_ = nullptr;
};

}  // namespace bass
