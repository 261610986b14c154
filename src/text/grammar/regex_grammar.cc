#include "text/grammar/regex_grammar.h"

#include <fmt/format.h>

#include <array>
#include <string>

#include "base/check.h"
#include "text/grammar/json_grammar.h"
#include "text/grammar/regex_characters.h"
#include "text/utf8.h"

namespace bass {
namespace {

using Sequence = Grammar::Sequence;

struct Repeats {
  int min = 1;
  std::optional<int> max = 1;  // none: any number
};

struct GroupKind {
  std::string_view opening;
  std::string_view name;  // empty: a group like any other
};
// The first that fits.
constexpr std::array kGroupKinds{
    GroupKind{"(?:", ""},
    GroupKind{"(?=", "a lookahead"},
    GroupKind{"(?!", "a lookahead"},
    GroupKind{"(?<=", "a lookbehind"},
    GroupKind{"(?<!", "a lookbehind"},
    GroupKind{"(?>", "an atomic group"},
    GroupKind{"(?P=", "a backreference"},
    GroupKind{"(?P>", "a recursion"},
    GroupKind{"(?(", "a condition"},
    GroupKind{"(?#", "a comment"},
};

class RegexParser {
 public:
  RegexParser(GrammarBuilder& builder, std::string_view pattern, RegexText text)
      : builder_(builder), reader_(pattern), text_(text) {}

  Result<Sequence> parse();

 private:
  Result<Sequence> alternatives();
  Result<Sequence> alternative();
  Result<Sequence> piece();
  Result<Sequence> atom();
  Result<Sequence> group();
  Status enter_group();
  Result<Repeats> repeats();
  Result<std::optional<Repeats>> counted_repeats();
  bool take_last_anchor();
  Sequence character(const CodePointSet& set);
  Sequence any_text() { return builder_.repeat(character(CodePointSet::all()), 0, std::nullopt); }
  [[nodiscard]] bool sees_repeats();

  GrammarBuilder& builder_;
  RegexReader reader_;
  RegexText text_;
  int depth_ = 0;  // groups that are open
};

Sequence RegexParser::character(const CodePointSet& set) {
  return text_ == RegexText::kPlain ? builder_.character(set.ranges()) : json_character(builder_, set);
}

Result<Sequence> RegexParser::parse() {
  BASS_ASSIGN_OR_RETURN(Sequence all, alternatives());
  if (!reader_.at_end()) {
    return invalid_argument(
        fmt::format("the pattern has a ) at byte {} without its (; write \\) for the sign", reader_.position()));
  }
  return all;
}

Result<Sequence> RegexParser::alternatives() {
  std::vector<Sequence> all;
  do {
    BASS_ASSIGN_OR_RETURN(Sequence one, alternative());
    all.push_back(std::move(one));
  } while (reader_.take("|"));
  return builder_.any_of(std::move(all));
}

// A `$` that ends an outermost alternative.
bool RegexParser::take_last_anchor() {
  const size_t at = reader_.position();
  if (depth_ == 0 && reader_.take("$") && (reader_.at_end() || reader_.sees("|"))) return true;
  reader_.go_back(at);
  return false;
}

Result<Sequence> RegexParser::alternative() {
  const bool is_search = depth_ == 0 && text_ == RegexText::kInJsonString;
  const bool begins_anywhere = !(depth_ == 0 && reader_.take("^")) && is_search;
  Sequence all = begins_anywhere ? any_text() : Sequence{};
  bool ends_here = false;
  while (!ends_here && !reader_.at_end() && !reader_.sees("|") && !reader_.sees(")")) {
    ends_here = take_last_anchor();
    if (ends_here) break;
    BASS_ASSIGN_OR_RETURN(const Sequence next, piece());
    all.insert(all.end(), next.begin(), next.end());
  }
  return is_search && !ends_here ? builder_.concat({all, any_text()}) : all;
}

Result<Sequence> RegexParser::piece() {
  BASS_ASSIGN_OR_RETURN(Sequence one, atom());
  BASS_ASSIGN_OR_RETURN(const Repeats times, repeats());
  const bool is_once = times.min == 1 && times.max == 1;
  if (is_once || one.empty()) return one;
  return builder_.repeat(single_element(builder_, std::move(one)), times.min, times.max);
}

bool RegexParser::sees_repeats() {
  if (reader_.sees("*") || reader_.sees("+") || reader_.sees("?")) return true;
  const size_t at = reader_.position();
  const Result<std::optional<Repeats>> counted = counted_repeats();
  reader_.go_back(at);
  return !counted.ok() || counted.value().has_value();
}

Result<Sequence> RegexParser::atom() {
  const size_t at = reader_.position();
  if (reader_.sees("(")) return group();
  if (reader_.sees("^") || reader_.sees("$")) {
    return RegexReader::not_supported("an anchor within", at);
  }
  if (sees_repeats()) {
    return invalid_argument(
        fmt::format("the pattern has a repetition at byte {} of nothing; write \\ before the sign if it is meant", at));
  }
  if (reader_.sees("[") || reader_.sees("\\")) {
    BASS_ASSIGN_OR_RETURN(const CodePointSet set,
                          reader_.sees("[") ? reader_.take_class() : reader_.take_escape(false));
    return character(set);
  }
  if (reader_.take(".")) return character(CodePointSet::one('\n').complement());
  return character(CodePointSet::one(reader_.take_code_point()));
}

Status RegexParser::enter_group() {
  const size_t at = reader_.position();
  for (const GroupKind& kind : kGroupKinds) {
    if (!reader_.take(kind.opening)) continue;
    return kind.name.empty() ? ok_status() : RegexReader::not_supported(kind.name, at);
  }
  if (reader_.take("(?<") || reader_.take("(?P<")) {
    while (!reader_.at_end() && !reader_.take(">")) reader_.take_code_point();
    return ok_status();
  }
  reader_.take("(");
  return reader_.sees("?") ? RegexReader::not_supported("a group of an unknown kind, or a flag,", at) : ok_status();
}

Result<Sequence> RegexParser::group() {
  const size_t at = reader_.position();
  BASS_RETURN_IF_ERROR(enter_group());
  if (++depth_ > kMaxRegexNesting) {
    return invalid_argument(
        fmt::format("the pattern has more than {} groups within one another; nest less", kMaxRegexNesting));
  }
  BASS_ASSIGN_OR_RETURN(Sequence inner, alternatives());
  --depth_;
  if (reader_.take(")")) return inner;
  return invalid_argument(fmt::format("the pattern has a group at byte {} without its end; write )", at));
}

// {m}, {m,} or {m,n}. Another brace is a character.
Result<std::optional<Repeats>> RegexParser::counted_repeats() {
  const size_t at = reader_.position();
  if (!reader_.take("{")) return std::optional<Repeats>();
  const std::optional<int> min = reader_.take_number();
  const bool is_open = reader_.take(",");
  const std::optional<int> max = is_open ? reader_.take_number() : min;
  if ((!min && !max) || !reader_.take("}")) {
    reader_.go_back(at);
    return std::optional<Repeats>();
  }
  if (!min) return RegexReader::not_supported("a repetition without its least number (write {0,n})", at);
  if (*min > kMaxRegexRepeats || max.value_or(0) > kMaxRegexRepeats) {
    return invalid_argument(
        fmt::format("the pattern repeats something at byte {} more than {} times; repeat less", at, kMaxRegexRepeats));
  }
  if (max && *max < *min) {
    return invalid_argument(fmt::format(
        "the pattern has a repetition at byte {} of at least {} and at most {}; swap them", at, *min, *max));
  }
  return std::optional(Repeats{*min, max});
}

Result<Repeats> RegexParser::repeats() {
  Repeats times;
  if (reader_.take("*")) {
    times = {0, std::nullopt};
  } else if (reader_.take("+")) {
    times = {1, std::nullopt};
  } else if (reader_.take("?")) {
    times = {0, 1};
  } else {
    BASS_ASSIGN_OR_RETURN(const std::optional<Repeats> counted, counted_repeats());
    if (!counted) return times;
    times = *counted;
  }
  if (reader_.sees("+")) return RegexReader::not_supported("a possessive repetition", reader_.position());
  reader_.take("?");  // lazy: the language is the same
  return times;
}

}  // namespace

Result<Grammar::Sequence> regex_sequence(GrammarBuilder& builder, std::string_view pattern, RegexText text) {
  if (pattern.size() > kMaxRegexBytes) {
    return invalid_argument(fmt::format("the pattern has {} bytes; give at most {}", pattern.size(), kMaxRegexBytes));
  }
  if (const std::optional<size_t> at = find_invalid_utf8(pattern)) {
    return invalid_argument(fmt::format("the pattern is not valid UTF-8 at byte {}; convert it first", *at));
  }
  return RegexParser(builder, pattern, text).parse();
}

}  // namespace bass
