// A parsed template.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/operators.h"
#include "text/jinja/value.h"

namespace bass::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct CallArgument {
  enum class Kind : uint8_t { kPositional, kNamed, kSpread, kNamedSpread } kind = Kind::kPositional;
  std::string name;  ///< kNamed
  ExprPtr value;
};

/// What `children` and `text` are is said for each kind.
struct Expr {
  enum class Kind : uint8_t {
    kConst,      ///< constant
    kName,       ///< text
    kList,       ///< the items
    kTuple,      ///< the items
    kDict,       ///< key, value, key, value, ...
    kNot,        ///< one
    kNegative,   ///< one
    kPositive,   ///< one
    kAnd,        ///< two
    kOr,         ///< two
    kBinary,     ///< two, operators[0]
    kCompare,    ///< one more than operators: a < b < c
    kConcat,     ///< two or more
    kCondition,  ///< condition, then, else (or absent)
    kAttribute,  ///< object; text is the name. As a target of `set`: the namespace's name as a kName
    kItem,       ///< object, key
    kSlice,      ///< object, start, stop, step (nullptr where left out)
    kCall,       ///< callee; arguments
    kFilter,     ///< value; text is the name; arguments
    kTest,       ///< value; text is the name; arguments
    kBlockText,  ///< nothing: the text of a `filter` or `set` block, innermost in its filters
  };
  Kind kind = Kind::kConst;
  int line = 1;
  int depth = 1;  ///< of expressions in expressions
  std::string text;
  Value constant;
  std::vector<Operator> operators;
  std::vector<ExprPtr> children;
  std::vector<CallArgument> arguments;
};

using ExprKind = Expr::Kind;

struct Stmt;
using Block = std::vector<std::unique_ptr<Stmt>>;

struct Parameter {
  std::string name;
  ExprPtr default_value;  ///< nullptr: none
};

/// What `exprs` and `blocks` are is said for each kind.
struct Stmt {
  enum class Kind : uint8_t {
    kText,         ///< text
    kPrint,        ///< exprs
    kIf,           ///< a condition for each block; one block more is the else
    kFor,          ///< target, iterable, filter (or nullptr); body, else
    kSet,          ///< target, value
    kSetBlock,     ///< target, filters (or nullptr); body
    kMacro,        ///< text is the name; parameters; body
    kCallBlock,    ///< call; parameters; body
    kFilterBlock,  ///< filters; body
    kWith,         ///< target, value, target, value, ...; body
    kBreak,
    kContinue,
    kScope,  ///< body, whose variables end with it
  };
  Kind kind = Kind::kText;
  int line = 1;
  std::string text;
  std::vector<ExprPtr> exprs;
  std::vector<Block> blocks;
  std::vector<Parameter> parameters;
  bool takes_varargs = false;  ///< the body of a macro names `varargs`
  bool takes_kwargs = false;
  bool takes_caller = false;
};

using StmtKind = Stmt::Kind;

}  // namespace bass::jinja
