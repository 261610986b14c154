#include <fmt/format.h>

#include <algorithm>

#include "text/jinja/evaluator.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"

namespace bass::jinja {

Evaluator::Deeper::Deeper(Evaluator& evaluator) : evaluator_(evaluator) {
  if (++evaluator.depth_ > evaluator.rt_.limits().max_eval_depth) {
    evaluator.rt_.fail(fmt::format("the template goes more than {} deep", evaluator.rt_.limits().max_eval_depth));
  }
}

Value Evaluator::eval(const Expr& expr) {
  const Deeper deeper(*this);
  const int outer_line = rt_.line();
  rt_.set_line(expr.line);
  Value value;
  if (rt_.spend(1)) value = eval_kind(expr);
  rt_.set_line(outer_line);
  return rt_.ok() ? value : Value();
}

Value Evaluator::eval_kind(const Expr& expr) {
  const auto child = [&](size_t idx) { return eval(*expr.children[idx]); };
  switch (expr.kind) {
    case ExprKind::kConst:
      return expr.constant;
    case ExprKind::kName:
      return eval_name(expr.text);
    case ExprKind::kList:
    case ExprKind::kTuple:
      return eval_items(expr);
    case ExprKind::kDict:
      return eval_dict(expr);
    case ExprKind::kNot:
      return Value::of_bool(!is_true(child(0)));
    case ExprKind::kNegative:
    case ExprKind::kPositive:
      return signed_value(rt_, child(0), expr.kind == ExprKind::kNegative);
    case ExprKind::kAnd:
    case ExprKind::kOr: {
      Value left = child(0);
      return is_true(left) == (expr.kind == ExprKind::kAnd) ? child(1) : left;
    }
    case ExprKind::kBinary: {
      const Value left = child(0), right = child(1);
      return rt_.ok() ? arithmetic(rt_, expr.operators[0], left, right) : Value();
    }
    case ExprKind::kCompare:
      return eval_compare(expr);
    case ExprKind::kConcat:
      return eval_concat(expr);
    case ExprKind::kCondition:
      return eval_condition(expr);
    case ExprKind::kAttribute:
      return attribute(rt_, child(0), expr.text);
    case ExprKind::kItem: {
      const Value object = child(0), key = child(1);
      return item(rt_, object, key);
    }
    case ExprKind::kSlice:
      return eval_slice(expr);
    case ExprKind::kCall:
      return eval_call(expr);
    case ExprKind::kFilter: {
      const Value value = child(0);
      return apply_filter(rt_, expr.text, value, eval_arguments(expr));
    }
    case ExprKind::kTest:
      return eval_test(expr);
    case ExprKind::kBlockText:
      return block_text_;
  }
  return {};
}

Value Evaluator::eval_name(const std::string& name) {
  for (const Scope* scope = scope_.get(); scope != nullptr; scope = scope->parent.get()) {
    if (!rt_.spend_on_names(scope->variables.size())) return {};
    for (const auto& [known, value] : scope->variables) {
      if (known == name) return value;
    }
  }
  if (const NativeFunction function = find_function(name)) return rt_.function(function, Value());
  return rt_.undefined(fmt::format("'{}' is undefined", name));
}

Value Evaluator::eval_items(const Expr& expr) {
  std::vector<Value> items;
  for (const ExprPtr& child : expr.children) items.push_back(eval(*child));
  return expr.kind == ExprKind::kList ? rt_.list(std::move(items)) : rt_.tuple(std::move(items));
}

Value Evaluator::eval_dict(const Expr& expr) {
  std::vector<std::pair<Value, Value>> entries;
  for (size_t i = 0; i < expr.children.size() && rt_.ok(); i += 2) {
    Value key = eval(*expr.children[i]), value = eval(*expr.children[i + 1]);
    set_entry(rt_, &entries, std::move(key), std::move(value));
  }
  return rt_.dict(std::move(entries));
}

Value Evaluator::eval_compare(const Expr& expr) {
  Value left = eval(*expr.children[0]);
  for (size_t i = 0; i < expr.operators.size() && rt_.ok(); ++i) {
    Value right = eval(*expr.children[i + 1]);
    if (!rt_.ok() || !relation(rt_, expr.operators[i], left, right)) return Value::of_bool(false);
    left = std::move(right);
  }
  return Value::of_bool(true);
}

Value Evaluator::eval_concat(const Expr& expr) {
  std::string out;
  for (const ExprPtr& child : expr.children) {
    const Value part = eval(*child);
    if (part.is_string() && !rt_.has_room(std::ssize(out) + std::ssize(part.text()))) return {};
    out += to_text(rt_, part);
  }
  return rt_.string(std::move(out));
}

Value Evaluator::eval_condition(const Expr& expr) {
  if (is_true(eval(*expr.children[0]))) return eval(*expr.children[1]);
  if (expr.children.size() > 2) return eval(*expr.children[2]);
  return rt_.undefined("the inline if-expression evaluated to false and no else section was defined");
}

Value Evaluator::eval_slice(const Expr& expr) {
  std::vector<Value> parts;
  for (const ExprPtr& child : expr.children) parts.push_back(eval(*child));
  return slice(rt_, parts[0], parts[1], parts[2], parts[3]);
}

Value Evaluator::eval_test(const Expr& expr) {
  const Value value = eval(*expr.children[0]);
  return Value::of_bool(apply_test(rt_, expr.text, value, eval_arguments(expr)));
}

void Evaluator::spread(const Value& value, Arguments* arguments) {
  for (Value& item : items_of(rt_, value)) arguments->positional.push_back(std::move(item));
}

void Evaluator::spread_named(const Value& value, Arguments* arguments) {
  if (!value.is(Kind::kDict)) {
    rt_.fail("argument after ** must be a mapping");
    return;
  }
  for (const auto& [key, entry] : value.as<Dict>().entries) {
    if (!key.is_string()) rt_.fail("keywords must be strings");
    if (rt_.ok()) arguments->named.emplace_back(key.text(), entry);
  }
}

Arguments Evaluator::eval_arguments(const Expr& call) {
  Arguments arguments;
  for (const CallArgument& argument : call.arguments) {
    Value value = eval(*argument.value);
    if (!rt_.ok()) break;
    if (argument.kind == CallArgument::Kind::kPositional) {
      arguments.positional.push_back(std::move(value));
    } else if (argument.kind == CallArgument::Kind::kNamed) {
      arguments.named.emplace_back(argument.name, std::move(value));
    } else if (argument.kind == CallArgument::Kind::kSpread) {
      spread(value, &arguments);
    } else {
      spread_named(value, &arguments);
    }
  }
  return arguments;
}

Value Evaluator::eval_call(const Expr& expr) {
  const Value callee = eval(*expr.children[0]);
  const Arguments arguments = eval_arguments(expr);
  return rt_.ok() ? call(callee, arguments) : Value();
}

Value Evaluator::call(const Value& callee, const Arguments& arguments) {
  if (callee.is_undefined()) return rt_.fail(callee.text());
  if (callee.is(Kind::kFunction)) {
    const auto& function = callee.as<Function>();
    return function.call(rt_, function.self, arguments);
  }
  if (!callee.is(Kind::kMacro)) return rt_.fail(fmt::format("'{}' object is not callable", type_name(callee)));
  const Deeper deeper(*this);
  return rt_.ok() ? call_macro(callee.as<Macro>(), arguments) : Value();
}

Value Evaluator::call_macro(const Macro& macro, const Arguments& arguments) {
  const ScopeGuard guard(&scope_, inside(macro.scope));
  if (!bind_parameters(macro, arguments)) return {};
  return capture(macro.stmt->blocks[0]);
}

bool Evaluator::bind_parameters(const Macro& macro, const Arguments& arguments) {
  const Stmt& stmt = *macro.stmt;
  const auto named = [&](std::string_view name) {
    return std::ranges::find_if(arguments.named, [&](const auto& a) { return a.first == name; });
  };
  for (size_t i = 0; i < stmt.parameters.size() && rt_.ok(); ++i) {
    const Parameter& parameter = stmt.parameters[i];
    const auto found = named(parameter.name);
    if (i < arguments.positional.size()) {
      if (found != arguments.named.end() && !stmt.takes_kwargs) {
        rt_.fail(fmt::format("macro '{}' got two values for '{}'", stmt.text, parameter.name));
      }
      assign_name(parameter.name, arguments.positional[i]);
    } else if (found != arguments.named.end()) {
      assign_name(parameter.name, found->second);
    } else if (parameter.default_value != nullptr) {
      assign_name(parameter.name, eval(*parameter.default_value));
    } else {
      assign_name(parameter.name, rt_.undefined(fmt::format("parameter '{}' was not provided", parameter.name)));
    }
  }
  bind_rest(stmt, arguments);
  return rt_.ok();
}

/// `varargs`, `kwargs` and `caller`, where the macro names them; arguments that nothing takes are an error.
void Evaluator::bind_rest(const Stmt& stmt, const Arguments& arguments) {
  std::vector<Value> varargs;
  for (size_t i = stmt.parameters.size(); i < arguments.positional.size(); ++i)
    varargs.push_back(arguments.positional[i]);
  if (!varargs.empty() && !stmt.takes_varargs) {
    rt_.fail(fmt::format("macro '{}' takes not more than {} argument(s)", stmt.text, stmt.parameters.size()));
  }
  std::vector<std::pair<Value, Value>> kwargs;
  Value caller = rt_.undefined("no caller defined");
  for (const auto& [name, value] : arguments.named) {
    if (std::ranges::any_of(stmt.parameters, [&, &n = name](const Parameter& p) { return p.name == n; })) continue;
    if (name == "caller" && stmt.takes_caller) {
      caller = value;
    } else if (stmt.takes_kwargs) {
      kwargs.emplace_back(rt_.string(name), value);
    } else {
      rt_.fail(fmt::format("macro '{}' takes no keyword argument '{}'", stmt.text, name));
    }
  }
  if (stmt.takes_varargs) assign_name("varargs", rt_.tuple(std::move(varargs)));
  if (stmt.takes_kwargs) assign_name("kwargs", rt_.dict(std::move(kwargs)));
  if (stmt.takes_caller) assign_name("caller", std::move(caller));
}

}  // namespace bass::jinja
