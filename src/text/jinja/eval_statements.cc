#include <fmt/format.h>

#include <limits>

#include "text/jinja/evaluator.h"
#include "text/jinja/operators.h"

namespace bass::jinja {

std::string Evaluator::run(const Block& block) {
  exec(block);
  return std::move(out_);
}

Evaluator::Flow Evaluator::exec(const Block& block) {
  const Deeper deeper(*this);
  for (const auto& stmt : block) {
    const Flow flow = exec(*stmt);
    if (flow != Flow::kNext) return flow;
    if (!rt_.ok()) break;
  }
  return Flow::kNext;
}

Evaluator::Flow Evaluator::exec(const Stmt& stmt) {
  rt_.set_line(stmt.line);
  if (!rt_.spend(1)) return Flow::kNext;
  switch (stmt.kind) {
    case StmtKind::kText:
      print(stmt.text);
      break;
    case StmtKind::kPrint: {
      const Value value = eval(*stmt.exprs[0]);
      print(value.is_string() ? value.text() : to_text(rt_, value));
      break;
    }
    case StmtKind::kIf:
      return exec_if(stmt);
    case StmtKind::kFor:
      return exec_for(stmt);
    case StmtKind::kSet:
      assign(*stmt.exprs[0], eval(*stmt.exprs[1]));
      break;
    case StmtKind::kSetBlock:
      exec_set_block(stmt);
      break;
    case StmtKind::kMacro:
      exec_macro(stmt);
      break;
    case StmtKind::kCallBlock:
      exec_call_block(stmt);
      break;
    case StmtKind::kFilterBlock:
      print(to_text(rt_, capture(stmt.blocks[0], stmt.exprs[0].get())));
      break;
    case StmtKind::kWith:
      exec_with(stmt);
      break;
    case StmtKind::kBreak:
      return Flow::kBreak;
    case StmtKind::kContinue:
      return Flow::kContinue;
    case StmtKind::kScope:
      return exec_scope(stmt);
  }
  return Flow::kNext;
}

Evaluator::Flow Evaluator::exec_if(const Stmt& stmt) {
  for (size_t i = 0; i < stmt.exprs.size() && rt_.ok(); ++i) {
    const bool holds = is_true(eval(*stmt.exprs[i]));
    if (rt_.ok() && holds) return exec(stmt.blocks[i]);
  }
  if (rt_.ok() && stmt.blocks.size() > stmt.exprs.size()) return exec(stmt.blocks.back());
  return Flow::kNext;
}

Evaluator::Flow Evaluator::exec_for(const Stmt& stmt) {
  const Value iterable = eval(*stmt.exprs[1]);
  if (!rt_.ok()) return Flow::kNext;
  const auto loop = std::make_shared<Loop>();
  loop->items = items_of(rt_, iterable);
  const Expr* filter = stmt.exprs[2].get();
  if (filter != nullptr) {
    loop->passes = [this, &stmt, filter, scope = scope_](const Value& item) {
      const ScopeGuard guard(&scope_, inside(scope));
      assign(*stmt.exprs[0], item);
      assign_name("loop", rt_.undefined("the filter of a for statement has no loop"));
      return is_true(eval(*filter)) && rt_.ok();
    };
  }
  const Value value{std::static_pointer_cast<Object>(loop)};
  const bool has_run = exec_loop(stmt, value);
  loop->end();
  if (has_run || stmt.blocks.size() < 2 || !rt_.ok()) return Flow::kNext;
  const ScopeGuard guard(&scope_, inside(scope_));
  return exec(stmt.blocks[1]);
}

// Whether the body was run to its end at least once: else, as Jinja has it, the block behind `else` is.
bool Evaluator::exec_loop(const Stmt& stmt, const Value& loop_value) {
  auto& loop = loop_value.as<Loop>();
  bool has_run = false;
  while (rt_.ok() && loop.advance()) {
    const ScopeGuard guard(&scope_, inside(scope_));
    assign(*stmt.exprs[0], loop.current);
    assign_name("loop", loop_value);
    const Flow flow = exec(stmt.blocks[0]);
    if (flow == Flow::kBreak) break;
    has_run |= flow == Flow::kNext;
  }
  return has_run;
}

void Evaluator::exec_set_block(const Stmt& stmt) {
  assign(*stmt.exprs[0], capture(stmt.blocks[0], stmt.exprs[1].get()));
}

void Evaluator::exec_macro(const Stmt& stmt) {
  auto macro = std::make_unique<Macro>();
  macro->stmt = &stmt;
  macro->scope = scope_;
  assign_name(stmt.text, rt_.keep(std::move(macro)));
}

void Evaluator::exec_call_block(const Stmt& stmt) {
  auto macro = std::make_unique<Macro>();
  macro->stmt = &stmt;
  macro->scope = scope_;
  const Expr& expr = *stmt.exprs[0];
  const Value callee = eval(*expr.children[0]);
  Arguments arguments = eval_arguments(expr);
  arguments.named.emplace_back("caller", rt_.keep(std::move(macro)));
  if (rt_.ok()) print(to_text(rt_, call(callee, arguments)));
}

void Evaluator::exec_with(const Stmt& stmt) {
  std::vector<Value> values;  // all before the first name is set
  for (size_t i = 1; i < stmt.exprs.size(); i += 2) values.push_back(eval(*stmt.exprs[i]));
  const ScopeGuard guard(&scope_, inside(scope_));
  for (size_t i = 0; i < values.size(); ++i) assign(*stmt.exprs[2 * i], values[i]);
  exec(stmt.blocks[0]);
}

Evaluator::Flow Evaluator::exec_scope(const Stmt& stmt) {
  const ScopeGuard guard(&scope_, inside(scope_));
  return exec(stmt.blocks[0]);
}

void Evaluator::assign_name(std::string_view name, Value value) {
  if (!rt_.spend_on_names(scope_->variables.size())) return;
  for (auto& [known, old] : scope_->variables) {
    if (known != name) continue;
    old = std::move(value);
    return;
  }
  scope_->variables.emplace_back(name, std::move(value));
}

void Evaluator::assign(const Expr& target, Value value) {
  if (!rt_.ok()) return;
  if (target.kind == ExprKind::kName) return assign_name(target.text, std::move(value));
  if (target.kind == ExprKind::kAttribute) return assign_attribute(target, std::move(value));
  const std::vector<Value> items = items_of(rt_, value);
  if (items.size() != target.children.size()) {
    rt_.fail(fmt::format("{} values for {} names", items.size(), target.children.size()));
  }
  for (size_t i = 0; i < items.size() && rt_.ok(); ++i) assign(*target.children[i], items[i]);
}

void Evaluator::assign_attribute(const Expr& target, Value value) {
  const Value object = eval(*target.children[0]);
  if (!object.is(Kind::kNamespace)) {
    rt_.fail("cannot assign attribute on non-namespace object");
    return;
  }
  if (target.text.starts_with('_')) {
    rt_.fail(fmt::format("a namespace's attribute cannot be named '{}'", target.text));
    return;
  }
  auto& attributes = object.as<Namespace>().attributes;
  if (!rt_.spend_on_names(attributes.size())) return;
  for (auto& [name, old] : attributes) {
    if (name != target.text) continue;
    old = std::move(value);
    return;
  }
  attributes.emplace_back(target.text, std::move(value));
}

void Evaluator::print(std::string_view text) {
  if (!rt_.spend(std::ssize(text) / 64) || !rt_.has_room(n_buffered_ + std::ssize(out_) + std::ssize(text))) return;
  out_ += text;
}

Value Evaluator::capture(const Block& block) {
  std::string outer = std::exchange(out_, {});
  n_buffered_ += std::ssize(outer);
  exec(block);
  n_buffered_ -= std::ssize(outer);
  return rt_.string(std::exchange(out_, std::move(outer)));
}

Value Evaluator::capture(const Block& block, const Expr* filters) {
  Value text;
  {
    const ScopeGuard guard(&scope_, inside(scope_));
    text = capture(block);
  }
  if (filters == nullptr) return text;
  const Value outer_text = std::exchange(block_text_, std::move(text));
  Value result = eval(*filters);
  block_text_ = outer_text;
  return result;
}

}  // namespace bass::jinja
