#include "text/detokenizer.h"

#include <utility>

namespace bass {

std::string_view StreamDetokenizer::push(TokenId id) {
  tokenizer_->append_text(id, with_special_, at_start_, pending_);
  complete_.clear();
  size_t at = 0;
  while (at < pending_.size()) {
    const std::string_view rest = std::string_view(pending_).substr(at);
    const Utf8Char c = first_utf8_char(rest);
    if (c.cut) break;
    complete_ += c.valid ? rest.substr(0, c.n_bytes) : kReplacementChar;
    at += c.n_bytes;
  }
  pending_.erase(0, at);
  return complete_;
}

std::string StreamDetokenizer::flush() { return to_valid_utf8(std::exchange(pending_, {})); }

}  // namespace bass
