#include "text/grammar/behind_thoughts.h"

#include <utility>
#include <vector>

#include "text/text_marks.h"

namespace bass {
namespace {

using Sequence = Grammar::Sequence;

ByteSet set_of(std::string_view characters) {
  ByteSet set;
  for (const char c : characters) set.set(static_cast<uint8_t>(c));
  return set;
}

/// Bytes up to the first end mark, and what follows it. Rule i: i bytes of the mark have come. Its first byte is at no
/// other place of it, so that a mark that breaks off has begun anew with that byte, or not at all.
Sequence up_to_end_mark(GrammarBuilder* builder, const Sequence& rest) {
  static_assert(kThoughtsEnd.find(kThoughtsEnd.front(), 1) == kThoughtsEnd.npos);
  std::vector<Grammar::RuleId> rules;
  for (size_t i = 0; i < kThoughtsEnd.size(); ++i) rules.push_back(builder->declare());
  const ByteSet first = set_of(kThoughtsEnd.substr(0, 1));
  for (size_t i = 0; i < rules.size(); ++i) {
    const ByteSet next = set_of(kThoughtsEnd.substr(i, 1));
    const Sequence behind_next = i + 1 < rules.size() ? builder->rule(rules[i + 1]) : rest;
    std::vector<Sequence> ways{builder->concat({builder->bytes(next), behind_next}),
                               builder->concat({builder->bytes(~(next | first)), builder->rule(rules[0])})};
    if (i > 0) ways.push_back(builder->concat({builder->bytes(first), builder->rule(rules[1])}));
    builder->define(rules[i], std::move(ways));
  }
  return builder->rule(rules[0]);
}

}  // namespace

Result<Grammar> behind_thoughts(Grammar text, ThoughtsAhead thoughts) {
  if (thoughts == ThoughtsAhead::kNone) return text;
  GrammarBuilder builder(std::move(text));
  const Sequence root = builder.rule(builder.root());
  const Sequence blanks = builder.repeat(builder.bytes(set_of(kBlanks)), 0, kMaxBlanksBehindThoughts);
  const Sequence inside = up_to_end_mark(&builder, builder.concat({blanks, root}));
  if (thoughts == ThoughtsAhead::kBegun) return builder.finish(inside);
  return builder.finish(builder.any_of({builder.concat({blanks, builder.text(kThoughtsBegin), inside}), root}));
}

}  // namespace bass
