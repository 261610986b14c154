// What follows an expression (attributes, items, calls, filters, tests), tuples and targets.
#include <fmt/format.h>

#include <algorithm>

#include "text/jinja/parser.h"

namespace bass::jinja {

ExprPtr ExpressionParser::parse_postfix(ExprPtr expr) {
  while (true) {
    if (stream_.is_operator(".")) {
      expr = parse_attribute(std::move(expr));
    } else if (stream_.is_operator("[")) {
      expr = parse_subscript(std::move(expr));
    } else if (stream_.is_operator("(")) {
      expr = parse_call(std::move(expr));
    } else {
      return expr;
    }
  }
}

ExprPtr ExpressionParser::parse_filters(ExprPtr expr) {
  while (true) {
    if (stream_.is_operator("|")) {
      stream_.take();
      expr = parse_filter(std::move(expr));
    } else if (stream_.is_name("is")) {
      stream_.take();
      expr = parse_test(std::move(expr));
    } else if (stream_.is_operator("(")) {
      expr = parse_call(std::move(expr));
    } else {
      return expr;
    }
  }
}

ExprPtr ExpressionParser::parse_attribute(ExprPtr object) {
  const int line = stream_.take().line;
  if (stream_.is(TokenKind::kInteger)) return make(ExprKind::kItem, line, std::move(object), parse_number());
  ExprPtr expr = make(ExprKind::kAttribute, line, std::move(object));
  expr->text = stream_.take_name();
  return expr;
}

ExprPtr ExpressionParser::parse_subscript(ExprPtr object) {
  const int line = stream_.take().line;
  ExprPtr first = stream_.is_operator(":") ? nullptr : parse_tuple();
  if (!stream_.is_operator(":")) {
    stream_.expect_operator("]");
    return make(ExprKind::kItem, line, std::move(object), std::move(first));
  }
  ExprPtr expr = make(ExprKind::kSlice, line, std::move(object));
  const auto add = [&](ExprPtr bound) {
    if (bound == nullptr) bound = make(ExprKind::kConst, line);
    adopt(expr.get(), std::move(bound));
  };
  add(std::move(first));
  for (int i = 0; i < 2; ++i) {  // stop, step
    const bool is_given = stream_.skip_operator(":") && !stream_.is_operator(":") && !stream_.is_operator("]");
    add(is_given ? parse() : nullptr);
  }
  stream_.expect_operator("]");
  return expr;
}

CallArgument ExpressionParser::parse_argument() {
  CallArgument argument;
  if (stream_.skip_operator("*")) {
    argument.kind = CallArgument::Kind::kSpread;
  } else if (stream_.skip_operator("**")) {
    argument.kind = CallArgument::Kind::kNamedSpread;
  } else if (stream_.is(TokenKind::kName) && TokenStream::is_operator(stream_.ahead(), "=")) {
    argument.kind = CallArgument::Kind::kNamed;
    argument.name = stream_.take().text;
    stream_.take();
  }
  argument.value = parse();
  return argument;
}

void ExpressionParser::parse_arguments(Expr* call) {
  stream_.expect_operator("(");
  auto last = CallArgument::Kind::kPositional;
  while (stream_.ok() && !stream_.is_operator(")")) {
    if (!call->arguments.empty()) stream_.expect_operator(",");
    if (stream_.is_operator(")")) break;
    CallArgument argument = parse_argument();
    if (argument.kind < last) stream_.fail("a positional argument behind a named one");
    last = argument.kind;
    call->depth = std::max(call->depth, argument.value->depth + 1);
    call->arguments.push_back(std::move(argument));
  }
  stream_.expect_operator(")");
}

ExprPtr ExpressionParser::parse_call(ExprPtr callee) {
  ExprPtr call = make(ExprKind::kCall, stream_.line(), std::move(callee));
  parse_arguments(call.get());
  return call;
}

ExprPtr ExpressionParser::parse_filter(ExprPtr value) {
  ExprPtr filter = make(ExprKind::kFilter, stream_.line(), std::move(value));
  filter->text = stream_.take_name();
  if (stream_.is_operator("(")) parse_arguments(filter.get());
  return filter;
}

ExprPtr ExpressionParser::parse_test(ExprPtr value) {
  const int line = stream_.line();
  const bool is_negated = stream_.skip_name("not");
  ExprPtr test = make(ExprKind::kTest, line, std::move(value));
  test->text = stream_.take_name();
  const Token& next = stream_.current();
  const bool is_word = next.kind == TokenKind::kName && next.text != "else" && next.text != "or" &&
                       next.text != "and" && next.text != "if" && next.text != "in" && next.text != "not" &&
                       next.text != "is";
  const bool is_literal =
      next.kind == TokenKind::kString || next.kind == TokenKind::kInteger || next.kind == TokenKind::kFloat;
  if (stream_.is_name("is")) stream_.fail("tests cannot be chained with is");
  if (stream_.is_operator("(")) {
    parse_arguments(test.get());
  } else if (is_word || is_literal || stream_.is_operator("[") || stream_.is_operator("{")) {
    const Level level(*this);
    CallArgument argument;
    argument.value = parse_postfix(parse_primary());
    test->depth = std::max(test->depth, argument.value->depth + 1);
    test->arguments.push_back(std::move(argument));
  }
  return is_negated ? make(ExprKind::kNot, line, std::move(test)) : std::move(test);
}

bool ExpressionParser::is_tuple_end() const {
  const TokenKind kind = stream_.current().kind;
  return kind == TokenKind::kPrintEnd || kind == TokenKind::kBlockEnd || stream_.is_operator(")") ||
         stream_.is_operator("]");
}

ExprPtr ExpressionParser::parse_tuple(bool has_condition) {
  const int line = stream_.line();
  ExprPtr first = parse(has_condition);
  if (!stream_.is_operator(",")) return first;
  ExprPtr tuple = make(ExprKind::kTuple, line, std::move(first));
  while (stream_.skip_operator(",") && !is_tuple_end()) adopt(tuple.get(), parse(has_condition));
  return tuple;
}

ExprPtr ExpressionParser::parse_target_part(bool allows_namespace) {
  const Level level(*this);
  const int line = stream_.line();
  if (stream_.skip_operator("(")) {
    ExprPtr target = parse_target(allows_namespace);
    stream_.expect_operator(")");
    return target;
  }
  ExprPtr target = make(ExprKind::kName, line);
  target->text = stream_.take_name();
  constexpr std::string_view kReserved[] = {"true", "false", "none", "True", "False", "None"};
  if (std::ranges::find(kReserved, target->text) != std::end(kReserved)) {
    stream_.fail(fmt::format("'{}' cannot be assigned to", target->text));
  }
  if (!allows_namespace || !stream_.skip_operator(".")) return target;
  ExprPtr attribute = make(ExprKind::kAttribute, line, std::move(target));
  attribute->text = stream_.take_name();
  return attribute;
}

ExprPtr ExpressionParser::parse_target(bool allows_namespace) {
  const int line = stream_.line();
  ExprPtr first = parse_target_part(allows_namespace);
  if (!stream_.is_operator(",")) return first;
  ExprPtr tuple = make(ExprKind::kTuple, line, std::move(first));
  while (stream_.skip_operator(",")) adopt(tuple.get(), parse_target_part(allows_namespace));
  return tuple;
}

ExprPtr ExpressionParser::parse_block_filters(bool is_inline) {
  if (!is_inline && !stream_.is_operator("|")) return nullptr;
  ExprPtr expr = make(ExprKind::kBlockText, stream_.line());
  if (is_inline) expr = parse_filter(std::move(expr));
  while (stream_.skip_operator("|")) expr = parse_filter(std::move(expr));
  return expr;
}

std::vector<Parameter> ExpressionParser::parse_parameters() {
  std::vector<Parameter> parameters;
  stream_.expect_operator("(");
  while (stream_.ok() && !stream_.is_operator(")")) {
    if (!parameters.empty()) stream_.expect_operator(",");
    Parameter parameter;
    parameter.name = stream_.take_name();
    const bool has_default = stream_.skip_operator("=");
    if (has_default) parameter.default_value = parse();
    if (!has_default && !parameters.empty() && parameters.back().default_value != nullptr) {
      stream_.fail("a parameter without a default behind one with a default");
    }
    parameters.push_back(std::move(parameter));
  }
  stream_.expect_operator(")");
  return parameters;
}

}  // namespace bass::jinja
