// Runs a parsed template.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/loop.h"
#include "text/jinja/runtime.h"

namespace bass::jinja {

/// Variables of a block; what is not found here is looked up in the block around it. Names belong to the tree.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<std::string_view, Value>> variables;
};

/// What a macro is when it runs. Also the body of a call block, which the macro called knows as `caller`.
struct Macro final : Object {
  Macro() : Object(Kind::kMacro) {}
  const Stmt* stmt = nullptr;
  std::shared_ptr<Scope> scope;  ///< where it was defined
};

class Evaluator {
 public:
  /// `variables`: what the template is given; set by `define`.
  explicit Evaluator(Runtime& rt) : rt_(rt), scope_(std::make_shared<Scope>()) {}

  void define(std::string_view name, Value value) { assign_name(name, std::move(value)); }
  /// What the template prints. Ends early after an error.
  std::string run(const Block& block);

 private:
  enum class Flow : uint8_t { kNext, kBreak, kContinue };

  /// Counts how deep expressions, blocks and macros are in each other.
  class Deeper {
   public:
    explicit Deeper(Evaluator& evaluator);
    ~Deeper() { --evaluator_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    Evaluator& evaluator_;
  };

  Value eval(const Expr& expr);
  Value eval_kind(const Expr& expr);
  Value eval_name(const std::string& name);
  Value eval_items(const Expr& expr);
  Value eval_dict(const Expr& expr);
  Value eval_compare(const Expr& expr);
  Value eval_concat(const Expr& expr);
  Value eval_condition(const Expr& expr);
  Value eval_call(const Expr& expr);
  Value eval_test(const Expr& expr);
  Value eval_slice(const Expr& expr);
  Arguments eval_arguments(const Expr& call);
  void spread(const Value& value, Arguments* arguments);
  void spread_named(const Value& value, Arguments* arguments);

  Flow exec(const Block& block);
  Flow exec(const Stmt& stmt);
  Flow exec_if(const Stmt& stmt);
  Flow exec_for(const Stmt& stmt);
  bool exec_loop(const Stmt& stmt, const Value& loop_value);
  void exec_set_block(const Stmt& stmt);
  void exec_macro(const Stmt& stmt);
  void exec_call_block(const Stmt& stmt);
  void exec_with(const Stmt& stmt);
  Flow exec_scope(const Stmt& stmt);

  Value call(const Value& callee, const Arguments& arguments);
  Value call_macro(const Macro& macro, const Arguments& arguments);
  /// Sets the parameters in the current scope. False: an error.
  bool bind_parameters(const Macro& macro, const Arguments& arguments);
  void bind_rest(const Stmt& stmt, const Arguments& arguments);

  void assign_name(std::string_view name, Value value);
  void assign(const Expr& target, Value value);
  void assign_attribute(const Expr& target, Value value);
  void print(std::string_view text);
  /// What a block prints, as a value.
  Value capture(const Block& block);
  /// The same through filters, whose innermost expression is a kBlockText.
  Value capture(const Block& block, const Expr* filters);

  Runtime& rt_;
  std::shared_ptr<Scope> scope_;
  std::string out_;
  int64_t n_buffered_ = 0;  // bytes of the outputs around out_
  int depth_ = 0;
  Value block_text_;  // of the filters that run
};

/// For a time another scope is the current one.
class ScopeGuard {
 public:
  ScopeGuard(std::shared_ptr<Scope>* current, std::shared_ptr<Scope> scope)
      : current_(current), outer_(std::exchange(*current, std::move(scope))) {}
  ~ScopeGuard() { *current_ = std::move(outer_); }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;

 private:
  std::shared_ptr<Scope>* current_;
  std::shared_ptr<Scope> outer_;
};

inline std::shared_ptr<Scope> inside(const std::shared_ptr<Scope>& parent) {
  auto scope = std::make_shared<Scope>();
  scope->parent = parent;
  return scope;
}

}  // namespace bass::jinja
