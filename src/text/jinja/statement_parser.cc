#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "text/jinja/parser.h"

namespace bass::jinja {
namespace {

using StmtPtr = std::unique_ptr<Stmt>;

class StatementParser {
 public:
  explicit StatementParser(std::vector<Token> tokens) : stream_(std::move(tokens)), expressions_(stream_) {}

  Result<Block> run() {
    Block block = parse_block({});
    BASS_RETURN_IF_ERROR(stream_.status());
    return block;
  }

 private:
  using Names = std::initializer_list<std::string_view>;

  StmtPtr make(StmtKind kind) const {
    auto stmt = std::make_unique<Stmt>();
    stmt->kind = kind;
    stmt->line = stream_.line();
    return stmt;
  }

  /// Statements up to a tag of one of these names, whose name is current then; without names, up to the end.
  Block parse_block(Names ends) {
    const ExpressionParser::Level level(expressions_);
    Block block;
    while (stream_.ok() && !stream_.is(TokenKind::kEnd)) {
      if (stream_.is(TokenKind::kText)) {
        block.push_back(make(StmtKind::kText));
        block.back()->text = stream_.take().text;
      } else if (stream_.is(TokenKind::kPrintBegin)) {
        block.push_back(parse_print());
      } else {
        stream_.expect(TokenKind::kBlockBegin, "a tag");
        if (std::ranges::any_of(ends, [&](std::string_view name) { return stream_.is_name(name); })) return block;
        block.push_back(parse_statement());
        stream_.expect(TokenKind::kBlockEnd, "'%}'");
      }
    }
    if (ends.size() > 0) stream_.fail(fmt::format("the template ends without '{}'", *(ends.end() - 1)));
    return block;
  }

  /// What stands between the end of a tag and the tag of one of these names.
  Block parse_body(Names ends) {
    stream_.skip_operator(":");
    stream_.expect(TokenKind::kBlockEnd, "'%}'");
    return parse_block(ends);
  }

  /// The same where only one name ends it; that is taken too.
  Block parse_body_to(std::string_view end) {
    Block block = parse_body({end});
    stream_.expect_name(end);
    return block;
  }

  StmtPtr parse_print() {
    StmtPtr stmt = make(StmtKind::kPrint);
    stream_.take();
    stmt->exprs.push_back(expressions_.parse_tuple());
    stream_.expect(TokenKind::kPrintEnd, "'}}'");
    return stmt;
  }

  StmtPtr parse_statement() {
    struct Tag {
      std::string_view name;
      StmtPtr (StatementParser::*parse)();
    };
    constexpr Tag kTags[] = {{"if", &StatementParser::parse_if},
                             {"for", &StatementParser::parse_for},
                             {"set", &StatementParser::parse_set},
                             {"macro", &StatementParser::parse_macro},
                             {"call", &StatementParser::parse_call},
                             {"filter", &StatementParser::parse_filter},
                             {"with", &StatementParser::parse_with},
                             {"generation", &StatementParser::parse_generation},
                             {"break", &StatementParser::parse_leave_loop},
                             {"continue", &StatementParser::parse_leave_loop}};
    const auto* tag = std::ranges::find_if(kTags, [&](const Tag& t) { return stream_.is_name(t.name); });
    if (tag != std::end(kTags)) return (this->*tag->parse)();
    if (stream_.is(TokenKind::kName)) {
      stream_.fail(fmt::format("unknown tag {}", stream_.describe()));
    } else {
      stream_.fail(fmt::format("expected the name of a tag, got {}", stream_.describe()));
    }
    return make(StmtKind::kText);
  }

  StmtPtr parse_if() {
    StmtPtr stmt = make(StmtKind::kIf);
    do {
      stream_.take();  // if, elif
      stmt->exprs.push_back(expressions_.parse_tuple(/*has_condition=*/false));
      stmt->blocks.push_back(parse_body({"elif", "else", "endif"}));
    } while (stream_.is_name("elif"));
    if (stream_.skip_name("else")) stmt->blocks.push_back(parse_body({"endif"}));
    stream_.expect_name("endif");
    return stmt;
  }

  StmtPtr parse_for() {
    StmtPtr stmt = make(StmtKind::kFor);
    stream_.take();
    stmt->exprs.push_back(expressions_.parse_target(/*allows_namespace=*/false));
    stream_.expect_name("in");
    stmt->exprs.push_back(expressions_.parse_tuple(/*has_condition=*/false));
    stmt->exprs.push_back(stream_.skip_name("if") ? expressions_.parse() : nullptr);
    if (stream_.is_name("recursive")) stream_.fail("recursive loops are not supported");
    ++n_loops_;
    stmt->blocks.push_back(parse_body({"else", "endfor"}));
    --n_loops_;
    if (stream_.skip_name("else")) stmt->blocks.push_back(parse_body({"endfor"}));
    stream_.expect_name("endfor");
    return stmt;
  }

  StmtPtr parse_leave_loop() {
    StmtPtr stmt = make(stream_.is_name("break") ? StmtKind::kBreak : StmtKind::kContinue);
    if (n_loops_ == 0) stream_.fail(fmt::format("{} outside of a loop", stream_.describe()));
    stream_.take();
    return stmt;
  }

  StmtPtr parse_set() {
    StmtPtr stmt = make(StmtKind::kSet);
    stream_.take();
    stmt->exprs.push_back(expressions_.parse_target(/*allows_namespace=*/true));
    if (stream_.skip_operator("=")) {
      stmt->exprs.push_back(expressions_.parse_tuple());
      return stmt;
    }
    stmt->kind = StmtKind::kSetBlock;
    stmt->exprs.push_back(expressions_.parse_block_filters(/*is_inline=*/false));
    stmt->blocks.push_back(parse_body_to("endset"));
    return stmt;
  }

  /// The body of what is called like a function, and whether it names what only some of these take.
  void parse_callable_body(Stmt* stmt, std::string_view end) {
    const auto outer_names = std::exchange(expressions_.special_names, {});
    const int n_outer_loops = std::exchange(n_loops_, 0);
    stmt->blocks.push_back(parse_body_to(end));
    stmt->takes_varargs = expressions_.special_names.varargs;
    stmt->takes_kwargs = expressions_.special_names.kwargs;
    stmt->takes_caller = expressions_.special_names.caller;
    expressions_.special_names = outer_names;
    n_loops_ = n_outer_loops;
  }

  StmtPtr parse_macro() {
    StmtPtr stmt = make(StmtKind::kMacro);
    stream_.take();
    stmt->text = stream_.take_name();
    stmt->parameters = expressions_.parse_parameters();
    parse_callable_body(stmt.get(), "endmacro");
    return stmt;
  }

  StmtPtr parse_call() {
    StmtPtr stmt = make(StmtKind::kCallBlock);
    stream_.take();
    if (stream_.is_operator("(")) stmt->parameters = expressions_.parse_parameters();
    stmt->exprs.push_back(expressions_.parse());
    if (stmt->exprs[0]->kind != ExprKind::kCall) stream_.fail("expected a call");
    parse_callable_body(stmt.get(), "endcall");
    return stmt;
  }

  StmtPtr parse_filter() {
    StmtPtr stmt = make(StmtKind::kFilterBlock);
    stream_.take();
    stmt->exprs.push_back(expressions_.parse_block_filters(/*is_inline=*/true));
    stmt->blocks.push_back(parse_body_to("endfilter"));
    return stmt;
  }

  StmtPtr parse_with() {
    StmtPtr stmt = make(StmtKind::kWith);
    stream_.take();
    while (stream_.ok() && !stream_.is(TokenKind::kBlockEnd)) {
      if (!stmt->exprs.empty()) stream_.expect_operator(",");
      stmt->exprs.push_back(expressions_.parse_target(/*allows_namespace=*/false));
      stream_.expect_operator("=");
      stmt->exprs.push_back(expressions_.parse());
    }
    stmt->blocks.push_back(parse_body_to("endwith"));
    return stmt;
  }

  /// transformers' mark of what the assistant wrote; it changes nothing in the text.
  StmtPtr parse_generation() {
    StmtPtr stmt = make(StmtKind::kScope);
    stream_.take();
    const int n_outer_loops = std::exchange(n_loops_, 0);
    stmt->blocks.push_back(parse_body_to("endgeneration"));
    n_loops_ = n_outer_loops;
    return stmt;
  }

  TokenStream stream_;
  ExpressionParser expressions_;
  int n_loops_ = 0;  // around the current statement
};

}  // namespace

Result<Block> parse_template(std::string_view source) {
  BASS_ASSIGN_OR_RETURN(std::vector<Token> tokens, tokenize(source));
  return StatementParser(std::move(tokens)).run();
}

}  // namespace bass::jinja
