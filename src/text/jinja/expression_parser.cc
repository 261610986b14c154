#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "text/jinja/parser.h"

namespace bass::jinja {

namespace {

/// A constant of a template belongs to no run and so to no run's memory.
Value make_text(std::string bytes) {
  const auto object = std::make_shared<Text>(Kind::kString);
  object->bytes = std::move(bytes);
  return Value(object);
}

}  // namespace

ExpressionParser::Level::Level(ExpressionParser& parser) : parser_(parser) {
  if (++parser_.level_ > kMaxSyntaxDepth) {
    parser_.stream_.fail(fmt::format("expressions or blocks are nested more than {} deep", kMaxSyntaxDepth));
  }
}

ExprPtr ExpressionParser::make(ExprKind kind, int line) {
  auto expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->line = line;
  return expr;
}

ExprPtr ExpressionParser::make(ExprKind kind, int line, ExprPtr child) {
  ExprPtr expr = make(kind, line);
  adopt(expr.get(), std::move(child));
  return expr;
}

ExprPtr ExpressionParser::make(ExprKind kind, int line, ExprPtr left, ExprPtr right) {
  ExprPtr expr = make(kind, line, std::move(left));
  adopt(expr.get(), std::move(right));
  return expr;
}

// A long chain, such as a + b + c + ..., is deep too, though the parser does not go down for it.
void ExpressionParser::adopt(Expr* parent, ExprPtr child) {
  parent->depth = std::max(parent->depth, child->depth + 1);
  if (parent->depth > kMaxSyntaxDepth) {
    stream_.fail(parent->line, fmt::format("an expression is nested more than {} deep", kMaxSyntaxDepth));
  }
  parent->children.push_back(std::move(child));
}

ExprPtr ExpressionParser::parse(bool has_condition) {
  const Level level(*this);
  return has_condition ? parse_condition() : parse_or();
}

ExprPtr ExpressionParser::parse_condition() {
  const int line = stream_.line();
  ExprPtr expr = parse_or();
  while (stream_.skip_name("if")) {
    ExprPtr choice = make(ExprKind::kCondition, line, parse_or(), std::move(expr));
    if (stream_.skip_name("else")) adopt(choice.get(), parse());
    expr = std::move(choice);
  }
  return expr;
}

ExprPtr ExpressionParser::parse_or() {
  const int line = stream_.line();
  ExprPtr expr = parse_and();
  while (stream_.skip_name("or")) expr = make(ExprKind::kOr, line, std::move(expr), parse_and());
  return expr;
}

ExprPtr ExpressionParser::parse_and() {
  const int line = stream_.line();
  ExprPtr expr = parse_not();
  while (stream_.skip_name("and")) expr = make(ExprKind::kAnd, line, std::move(expr), parse_not());
  return expr;
}

ExprPtr ExpressionParser::parse_not() {
  const int line = stream_.line();
  if (!stream_.skip_name("not")) return parse_compare();
  const Level level(*this);
  return make(ExprKind::kNot, line, parse_not());
}

std::optional<Operator> ExpressionParser::comparison() const {
  constexpr std::pair<std::string_view, Operator> kComparisons[] = {{"==", Operator::kEq}, {"!=", Operator::kNe},
                                                                    {"<", Operator::kLt},  {"<=", Operator::kLe},
                                                                    {">", Operator::kGt},  {">=", Operator::kGe}};
  for (const auto& [text, op] : kComparisons) {
    if (stream_.is_operator(text)) return op;
  }
  if (stream_.is_name("in")) return Operator::kIn;
  const bool is_not_in = stream_.is_name("not") && TokenStream::is_name(stream_.ahead(), "in");
  return is_not_in ? std::optional(Operator::kNotIn) : std::nullopt;
}

ExprPtr ExpressionParser::parse_compare() {
  const int line = stream_.line();
  ExprPtr expr = parse_sum();
  if (!comparison().has_value()) return expr;
  ExprPtr compare = make(ExprKind::kCompare, line, std::move(expr));
  while (const std::optional<Operator> op = comparison()) {
    stream_.take();
    if (*op == Operator::kNotIn) stream_.take();
    compare->operators.push_back(*op);
    adopt(compare.get(), parse_sum());
  }
  return compare;
}

ExprPtr ExpressionParser::parse_sum() {
  const int line = stream_.line();
  ExprPtr expr = parse_concat();
  while (stream_.is_operator("+") || stream_.is_operator("-")) {
    const Operator op = stream_.take().text == "+" ? Operator::kAdd : Operator::kSub;
    expr = make(ExprKind::kBinary, line, std::move(expr), parse_concat());
    expr->operators = {op};
  }
  return expr;
}

ExprPtr ExpressionParser::parse_concat() {
  const int line = stream_.line();
  ExprPtr expr = parse_product();
  if (!stream_.is_operator("~")) return expr;
  ExprPtr concat = make(ExprKind::kConcat, line, std::move(expr));
  while (stream_.skip_operator("~")) adopt(concat.get(), parse_product());
  return concat;
}

ExprPtr ExpressionParser::parse_product() {
  constexpr std::pair<std::string_view, Operator> kProducts[] = {
      {"*", Operator::kMul}, {"/", Operator::kDiv}, {"//", Operator::kFloorDiv}, {"%", Operator::kMod}};
  const int line = stream_.line();
  ExprPtr expr = parse_power();
  while (true) {
    const auto* found = std::ranges::find_if(kProducts, [&](const auto& p) { return stream_.is_operator(p.first); });
    if (found == std::end(kProducts)) return expr;
    stream_.take();
    expr = make(ExprKind::kBinary, line, std::move(expr), parse_power());
    expr->operators = {found->second};
  }
}

// Unlike Python's, Jinja's ** binds to the left.
ExprPtr ExpressionParser::parse_power() {
  const int line = stream_.line();
  ExprPtr expr = parse_unary(true);
  while (stream_.skip_operator("**")) {
    expr = make(ExprKind::kBinary, line, std::move(expr), parse_unary(true));
    expr->operators = {Operator::kPow};
  }
  return expr;
}

ExprPtr ExpressionParser::parse_unary(bool has_filters) {
  const Level level(*this);
  const int line = stream_.line();
  ExprPtr expr;
  if (stream_.skip_operator("-")) {
    expr = make(ExprKind::kNegative, line, parse_unary(false));
  } else if (stream_.skip_operator("+")) {
    expr = make(ExprKind::kPositive, line, parse_unary(false));
  } else {
    expr = parse_primary();
  }
  expr = parse_postfix(std::move(expr));
  return has_filters ? parse_filters(std::move(expr)) : std::move(expr);
}

ExprPtr ExpressionParser::parse_primary() {
  switch (stream_.current().kind) {
    case TokenKind::kName:
      return parse_name();
    case TokenKind::kString:
      return parse_string();
    case TokenKind::kInteger:
    case TokenKind::kFloat:
      return parse_number();
    default:
      break;
  }
  if (stream_.is_operator("[")) return parse_list();
  if (stream_.is_operator("{")) return parse_dict();
  if (stream_.is_operator("(")) {
    const int line = stream_.take().line;
    ExprPtr expr = stream_.is_operator(")") ? make(ExprKind::kTuple, line) : parse_tuple();
    stream_.expect_operator(")");
    return expr;
  }
  stream_.fail(fmt::format("expected an expression, got {}", stream_.describe()));
  return make(ExprKind::kConst, stream_.line());
}

ExprPtr ExpressionParser::parse_name() {
  const Token token = stream_.take();
  ExprPtr expr = make(ExprKind::kConst, token.line);
  if (token.text == "true" || token.text == "True") {
    expr->constant = Value::of_bool(true);
  } else if (token.text == "false" || token.text == "False") {
    expr->constant = Value::of_bool(false);
  } else if (token.text != "none" && token.text != "None") {
    expr->kind = ExprKind::kName;
    expr->text = token.text;
    special_names.varargs |= token.text == "varargs";
    special_names.kwargs |= token.text == "kwargs";
    special_names.caller |= token.text == "caller";
  }
  return expr;
}

ExprPtr ExpressionParser::parse_number() {
  const Token token = stream_.take();
  ExprPtr expr = make(ExprKind::kConst, token.line);
  const char* end = token.text.data() + token.text.size();
  if (token.kind == TokenKind::kFloat) {
    double value = 0;
    if (std::from_chars(token.text.data(), end, value).ec != std::errc{})
      stream_.fail(token.line, "a number out of range");
    expr->constant = Value::of_float(value);
    return expr;
  }
  const char letter = token.text.size() > 1 ? token.text[1] : '\0';
  const int base = letter == 'x' || letter == 'X'   ? 16
                   : letter == 'o' || letter == 'O' ? 8
                   : letter == 'b' || letter == 'B' ? 2
                                                    : 10;
  int64_t value = 0;
  const auto [stop, error] = std::from_chars(token.text.data() + (base == 10 ? 0 : 2), end, value, base);
  if (error != std::errc{}) stream_.fail(token.line, "a whole number of more than 64 bits");
  expr->constant = Value::of_int(value);
  return expr;
}

ExprPtr ExpressionParser::parse_string() {
  const int line = stream_.line();
  std::string text;
  while (stream_.is(TokenKind::kString)) text += stream_.take().text;  // 'a' 'b' is 'ab'
  ExprPtr expr = make(ExprKind::kConst, line);
  expr->constant = make_text(std::move(text));
  return expr;
}

ExprPtr ExpressionParser::parse_list() {
  ExprPtr list = make(ExprKind::kList, stream_.take().line);
  while (stream_.ok() && !stream_.is_operator("]")) {
    if (!list->children.empty()) stream_.expect_operator(",");
    if (stream_.is_operator("]")) break;
    adopt(list.get(), parse());
  }
  stream_.expect_operator("]");
  return list;
}

ExprPtr ExpressionParser::parse_dict() {
  ExprPtr dict = make(ExprKind::kDict, stream_.take().line);
  while (stream_.ok() && !stream_.is_operator("}")) {
    if (!dict->children.empty()) stream_.expect_operator(",");
    if (stream_.is_operator("}")) break;
    adopt(dict.get(), parse());
    stream_.expect_operator(":");
    adopt(dict.get(), parse());
  }
  stream_.expect_operator("}");
  return dict;
}

}  // namespace bass::jinja
