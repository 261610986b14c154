// A template's source as tokens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bass/status.h"

namespace bass::jinja {

enum class TokenKind : uint8_t {
  kText,  ///< what stands between tags and is printed as it is
  kPrintBegin,
  kPrintEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,  ///< without quotes and escapes
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  int line = 1;
  std::string text;
};

/// Splits a template as Jinja does with trim_blocks and lstrip_blocks: white space that "-" asks for is gone, so are a
/// block's indentation and the line break behind it. The last token is kEnd. Error: "line N: ...".
Result<std::vector<Token>> tokenize(std::string_view source);

}  // namespace bass::jinja
