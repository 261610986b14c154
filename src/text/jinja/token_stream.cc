#include <fmt/format.h>

#include "text/jinja/parser.h"

namespace bass::jinja {

Token TokenStream::take() {
  Token token = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool TokenStream::skip_operator(std::string_view text) {
  if (!is_operator(text)) return false;
  take();
  return true;
}

bool TokenStream::skip_name(std::string_view text) {
  if (!is_name(text)) return false;
  take();
  return true;
}

void TokenStream::expect_operator(std::string_view text) {
  if (!skip_operator(text)) fail(fmt::format("expected '{}', got {}", text, describe()));
}

void TokenStream::expect_name(std::string_view text) {
  if (!skip_name(text)) fail(fmt::format("expected '{}', got {}", text, describe()));
}

void TokenStream::expect(TokenKind kind, std::string_view what) {
  if (is(kind)) {
    take();
  } else {
    fail(fmt::format("expected {}, got {}", what, describe()));
  }
}

std::string TokenStream::take_name() {
  if (is(TokenKind::kName)) return take().text;
  fail(fmt::format("expected a name, got {}", describe()));
  return {};
}

void TokenStream::fail(int line, std::string_view message) {
  if (!ok()) return;
  status_ = invalid_argument(fmt::format("line {}: {}", line, message));
  at_ = tokens_.size() - 1;
}

std::string TokenStream::describe() const {
  switch (current().kind) {
    case TokenKind::kText:
      return "text";
    case TokenKind::kPrintBegin:
      return "'{{'";
    case TokenKind::kPrintEnd:
      return "'}}'";
    case TokenKind::kBlockBegin:
      return "'{%'";
    case TokenKind::kBlockEnd:
      return "'%}'";
    case TokenKind::kString:
      return "a string";
    case TokenKind::kEnd:
      return "the end of the template";
    default:
      return fmt::format("'{}'", current().text.substr(0, 40));
  }
}

}  // namespace bass::jinja
