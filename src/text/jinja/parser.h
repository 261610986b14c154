// From tokens to the tree.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/token.h"

namespace bass::jinja {

/// Expressions and blocks in each other, at most. Python's own parser allows no more brackets.
inline constexpr int kMaxSyntaxDepth = 200;

/// Reads tokens one after the other. The first error sticks: from then on the stream is at its end.
class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  [[nodiscard]] const Token& current() const { return tokens_[at_]; }
  [[nodiscard]] const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  [[nodiscard]] int line() const { return current().line; }
  [[nodiscard]] bool is(TokenKind kind) const { return current().kind == kind; }
  [[nodiscard]] bool is_operator(std::string_view text) const { return is_operator(current(), text); }
  [[nodiscard]] bool is_name(std::string_view text) const { return is_name(current(), text); }
  static bool is_operator(const Token& token, std::string_view text) {
    return token.kind == TokenKind::kOperator && token.text == text;
  }
  static bool is_name(const Token& token, std::string_view text) {
    return token.kind == TokenKind::kName && token.text == text;
  }

  /// The current token; the next one becomes current.
  Token take();
  bool skip_operator(std::string_view text);
  bool skip_name(std::string_view text);
  void expect_operator(std::string_view text);
  void expect_name(std::string_view text);
  void expect(TokenKind kind, std::string_view what);
  /// A name, whichever.
  std::string take_name();

  [[nodiscard]] bool ok() const { return status_.ok(); }
  [[nodiscard]] const Status& status() const { return status_; }
  void fail(std::string_view message) { fail(line(), message); }
  void fail(int line, std::string_view message);
  /// The current token, for messages.
  [[nodiscard]] std::string describe() const;

 private:
  std::vector<Token> tokens_;  // the last one is kEnd
  size_t at_ = 0;
  Status status_;
};

/// Expressions. Every function gives some expression, after an error too.
class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& stream) : stream_(stream) {}

  ExprPtr parse(bool has_condition = true);
  /// An expression, or a tuple without brackets.
  ExprPtr parse_tuple(bool has_condition = true);
  /// What is assigned to: a name, a tuple of names; with `allows_namespace` also name.attribute.
  ExprPtr parse_target(bool allows_namespace);
  /// `name(arguments) | ...` around a kBlockText; nullptr if the current token is no filter. `is_inline`: the first
  /// one without its bar.
  ExprPtr parse_block_filters(bool is_inline);
  /// Parameters of a macro, with their brackets.
  std::vector<Parameter> parse_parameters();

  /// The names that the expressions read since `clear_names`, of those that make a macro take more.
  struct SpecialNames {
    bool varargs = false, kwargs = false, caller = false;
  };
  SpecialNames special_names;

  /// One level deeper; false, and an error, if that is too deep. A guard's end goes up again.
  class Level {
   public:
    explicit Level(ExpressionParser& parser);
    ~Level() { --parser_.level_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    ExpressionParser& parser_;
  };

 private:
  ExprPtr make(ExprKind kind, int line);
  ExprPtr make(ExprKind kind, int line, ExprPtr child);
  ExprPtr make(ExprKind kind, int line, ExprPtr left, ExprPtr right);
  void adopt(Expr* parent, ExprPtr child);

  ExprPtr parse_condition();
  ExprPtr parse_or();
  ExprPtr parse_and();
  ExprPtr parse_not();
  ExprPtr parse_compare();
  ExprPtr parse_sum();
  ExprPtr parse_concat();
  ExprPtr parse_product();
  ExprPtr parse_power();
  ExprPtr parse_unary(bool has_filters);
  ExprPtr parse_primary();
  ExprPtr parse_name();
  ExprPtr parse_number();
  ExprPtr parse_string();
  ExprPtr parse_list();
  ExprPtr parse_dict();
  ExprPtr parse_postfix(ExprPtr expr);
  ExprPtr parse_filters(ExprPtr expr);
  ExprPtr parse_subscript(ExprPtr object);
  ExprPtr parse_attribute(ExprPtr object);
  ExprPtr parse_call(ExprPtr callee);
  ExprPtr parse_filter(ExprPtr value);
  ExprPtr parse_test(ExprPtr value);
  void parse_arguments(Expr* call);
  CallArgument parse_argument();
  ExprPtr parse_target_part(bool allows_namespace);
  [[nodiscard]] bool is_tuple_end() const;
  [[nodiscard]] std::optional<Operator> comparison() const;

  TokenStream& stream_;
  int level_ = 0;
};

/// The whole template. Error: "line N: ...".
Result<Block> parse_template(std::string_view source);

}  // namespace bass::jinja
