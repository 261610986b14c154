#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "text/jinja/literals.h"
#include "text/jinja/python_text.h"
#include "text/jinja/token.h"
#include "text/utf8.h"

namespace bass::jinja {
namespace {

/// The two-character operators first, so that the longest one is found.
constexpr std::array<std::string_view, 26> kOperators = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                         "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                         ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};

std::string unify_line_breaks(std::string_view source) {
  std::string out;
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    out += source[i] == '\r' ? '\n' : source[i];
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

bool is_blank(std::string_view text) { return strip(text, Side::kLeft).empty(); }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(unify_line_breaks(source)), rest_(source_) {}

  Result<std::vector<Token>> run() {
    while (status_.ok() && !rest_.empty()) lex_text();
    BASS_RETURN_IF_ERROR(status_);
    add(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  void fail(std::string_view message) {
    if (status_.ok()) status_ = invalid_argument(fmt::format("line {}: {}", line_, message));
  }

  void add(TokenKind kind, std::string text) { tokens_.push_back({kind, line_, std::move(text)}); }

  /// Takes the next bytes of the source.
  std::string_view take(size_t n_bytes) {
    const std::string_view taken = rest_.substr(0, n_bytes);
    rest_.remove_prefix(taken.size());
    line_ += static_cast<int>(std::ranges::count(taken, '\n'));
    return taken;
  }

  bool skip(std::string_view what) {
    if (!rest_.starts_with(what)) return false;
    take(what.size());
    return true;
  }

  void skip_space() { take(rest_.size() - strip(rest_, Side::kLeft).size()); }

  /// What follows a tag: after "-%}" all white space goes, after "%}" a line break does (trims).
  void end_tag(std::string_view end, bool trims) {
    const char sign = rest_.front();
    if (sign == '-' || sign == '+') take(1);
    take(end.size());
    if (sign == '-') skip_space();
    if (sign != '-' && sign != '+' && trims) skip("\n");
    starts_line_ = source_[source_.size() - rest_.size() - 1] == '\n';
  }

  /// How much of a text in front of a tag is printed. sign: the character behind the tag's beginning.
  [[nodiscard]] std::string_view strip_before_tag(std::string_view text, char sign, bool is_print) const {
    if (sign == '-') return strip(text, Side::kRight);
    if (sign == '+' || is_print) return text;
    const size_t line_begin = text.rfind('\n') + 1;  // npos + 1 is 0
    const bool has_line = line_begin > 0 || starts_line_;
    return has_line && is_blank(text.substr(line_begin)) ? text.substr(0, line_begin) : text;
  }

  /// Text up to the next tag, and the tag.
  void lex_text() {
    size_t at = rest_.find('{');
    while (at != std::string_view::npos && (at + 1 == rest_.size() || !is_tag(rest_[at + 1])))
      at = rest_.find('{', at + 1);
    if (at == std::string_view::npos) {
      add(TokenKind::kText, std::string(rest_));
      take(rest_.size());
      return;
    }
    const char kind = rest_[at + 1];
    const char sign = at + 2 < rest_.size() ? rest_[at + 2] : '\0';
    const std::string_view text = strip_before_tag(rest_.substr(0, at), sign, kind == '{');
    if (!text.empty()) add(TokenKind::kText, std::string(text));
    take(at + 2 + (sign == '-' || sign == '+' ? 1 : 0));
    starts_line_ = false;
    if (kind == '#') return lex_comment();
    if (kind == '%' && lex_raw()) return;
    lex_tag(kind == '{');
  }

  static bool is_tag(char c) { return c == '{' || c == '%' || c == '#'; }

  void lex_comment() {
    size_t end = rest_.find("#}");
    if (end == std::string_view::npos) return fail("Missing end of comment tag");
    if (end > 0 && (rest_[end - 1] == '-' || rest_[end - 1] == '+')) --end;
    take(end);
    end_tag("#}", true);
  }

  /// `{% raw %}...{% endraw %}`; false: another block.
  bool lex_raw() {
    std::string_view after = strip(rest_, Side::kLeft);
    if (!after.starts_with("raw")) return false;
    after = strip(after.substr(3), Side::kLeft);
    if (!after.starts_with("%}") && !after.starts_with("-%}")) return false;
    take(rest_.size() - after.size());
    end_tag("%}", false);
    for (size_t at = rest_.find("{%"); at != std::string_view::npos; at = rest_.find("{%", at + 1)) {
      if (end_raw(at)) return true;
    }
    fail("Missing end of raw directive");
    return true;
  }

  /// Whether an endraw stands at this place; then the raw text is taken, and the tag.
  bool end_raw(size_t at) {
    std::string_view after = rest_.substr(at + 2);
    const char sign = after.empty() ? '\0' : after.front();
    if (sign == '-' || sign == '+') after.remove_prefix(1);
    after = strip(after, Side::kLeft);
    if (!after.starts_with("endraw")) return false;
    after = strip(after.substr(6), Side::kLeft);
    if (!after.starts_with("%}") && !after.starts_with("-%}") && !after.starts_with("+%}")) return false;
    const std::string_view text = strip_before_tag(rest_.substr(0, at), sign, false);
    if (!text.empty()) add(TokenKind::kText, std::string(text));
    take(rest_.size() - after.size());
    end_tag("%}", true);
    return true;
  }

  void lex_tag(bool is_print) {
    const std::string_view end = is_print ? "}}" : "%}";
    add(is_print ? TokenKind::kPrintBegin : TokenKind::kBlockBegin, "");
    open_.clear();
    while (status_.ok()) {
      skip_space();
      if (rest_.empty()) return fail("the template ends within a tag");
      const bool has_sign = rest_[0] == '-' || (rest_[0] == '+' && !is_print);
      if (open_.empty() && rest_.substr(has_sign ? 1 : 0).starts_with(end)) break;
      lex_token();
    }
    if (!status_.ok()) return;
    add(is_print ? TokenKind::kPrintEnd : TokenKind::kBlockEnd, "");
    end_tag(end, !is_print);
  }

  void lex_token() {
    const char c = rest_.front();
    if (c == '\'' || c == '"') return lex_string();
    if (c >= '0' && c <= '9') return lex_number();
    const size_t n_name_bytes = name_len(rest_);
    if (n_name_bytes > 0) return add(TokenKind::kName, std::string(take(n_name_bytes)));
    lex_operator();
  }

  void lex_string() {
    size_t end = 1;
    while (end < rest_.size() && rest_[end] != rest_[0]) end += rest_[end] == '\\' ? 2 : 1;
    if (end >= rest_.size()) return fail("a string without its closing quote");
    Result<std::string> text = unescape(rest_.substr(1, end - 1));
    if (!text.ok()) return fail(text.status().message());
    add(TokenKind::kString, std::move(text).value());
    take(end + 1);
  }

  void lex_number() {
    const bool after_dot =
        !tokens_.empty() && tokens_.back().kind == TokenKind::kOperator && tokens_.back().text == ".";
    const NumberLiteral number = read_number(rest_, !after_dot);
    add(number.is_float ? TokenKind::kFloat : TokenKind::kInteger, number.text);
    take(number.n_bytes);
  }

  void lex_operator() {
    const auto* found = std::ranges::find_if(kOperators, [&](std::string_view op) { return rest_.starts_with(op); });
    if (found == kOperators.end()) {
      return fail(fmt::format("unexpected char {}", quoted_text(rest_.substr(0, first_utf8_char(rest_).n_bytes))));
    }
    constexpr std::string_view kOpening = "([{", kClosing = ")]}";
    const char c = found->front();
    if (kOpening.find(c) != std::string_view::npos) open_ += kClosing[kOpening.find(c)];
    if (kClosing.find(c) != std::string_view::npos) {
      if (open_.empty() || open_.back() != c) {
        return fail(open_.empty() ? fmt::format("unexpected '{}'", c)
                                  : fmt::format("unexpected '{}', expected '{}'", c, open_.back()));
      }
      open_.pop_back();
    }
    add(TokenKind::kOperator, std::string(take(found->size())));
  }

  std::string source_;
  std::string_view rest_;  // of source_
  int line_ = 1;
  bool starts_line_ = true;  // what was taken last ended a line
  std::string open_;         // the brackets that the current tag must still close
  std::vector<Token> tokens_;
  Status status_;
};

}  // namespace

Result<std::vector<Token>> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace bass::jinja
