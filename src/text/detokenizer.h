// Tokens to text, as they come: whole UTF-8 characters only.
#pragma once

#include <string>
#include <string_view>

#include "bass/types.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace bass {

/// Keeps back the bytes of a character until it is complete. What all calls return, put together, is valid UTF-8 and
/// equals to_valid_utf8(tokenizer.decode(all ids)), or its end. One for each sequence; not thread-safe.
class StreamDetokenizer {
 public:
  /// Borrows the tokenizer. Control tokens give no text unless `with_special`. `at_start`: nothing stands before the
  /// text, so that the space that SentencePiece puts there is not shown; false for what continues a text.
  explicit StreamDetokenizer(const Tokenizer& tokenizer, bool with_special = false, bool at_start = true)
      : tokenizer_(&tokenizer), with_special_(with_special), at_start_(at_start) {}

  /// The characters that this token completes, valid until the next call. Bytes that can belong to no character any
  /// more become U+FFFD at once.
  std::string_view push(TokenId id);

  /// The rest: nothing, or U+FFFD for a character that was not completed. What comes next continues the text.
  std::string flush();

 private:
  const Tokenizer* tokenizer_;
  bool with_special_;
  bool at_start_;
  std::string pending_;   // the beginning of a character: at most 3 bytes
  std::string complete_;  // what push returned; kept, so that tokens need no memory
};

}  // namespace bass
