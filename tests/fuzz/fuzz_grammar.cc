// A JSON schema or a pattern, which comes with a request, made a grammar and followed along a text: the text behind the
// first NUL, and texts of the grammar's own.
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "text/grammar/grammar_automaton.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/regex_grammar.h"

namespace {

using bass::Grammar;
using bass::GrammarAutomaton;
using bass::Result;

constexpr size_t kMaxSteps = 256;

Result<Grammar> read_grammar(std::string_view text) {
  if (text.starts_with('{')) return bass::json_schema_grammar(text);
  bass::GrammarBuilder builder;
  const bool is_json = text.starts_with('"');
  const Result<Grammar::Sequence> root = regex_sequence(
      builder, text.substr(is_json ? 1 : 0), is_json ? bass::RegexText::kInJsonString : bass::RegexText::kPlain);
  return root.ok() ? builder.finish(root.value()) : root.status();
}

// The byte'th of the bytes that may follow; kDead if there are none.
GrammarAutomaton::State some_next(GrammarAutomaton& automaton, GrammarAutomaton::State state, uint8_t byte) {
  for (int i = 0; i < 256; ++i) {
    const GrammarAutomaton::State next = automaton.next(state, static_cast<uint8_t>(byte + i));
    if (next != GrammarAutomaton::kDead) return next;
  }
  return GrammarAutomaton::kDead;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(input.find('\0'), input.size());
  const std::string_view text = input.substr(end);
  Result<Grammar> grammar = read_grammar(input.substr(0, end));
  if (!grammar.ok()) {
    BASS_CHECK(grammar.status().code() == bass::StatusCode::kInvalidArgument && !grammar.status().message().empty());
    return 0;
  }
  GrammarAutomaton automaton(grammar.value());
  for (const bool picks : {false, true}) {
    automaton.allow_work();
    GrammarAutomaton::State state = automaton.start();
    for (size_t i = 1; i < std::min(text.size(), kMaxSteps) && state != GrammarAutomaton::kDead; ++i) {
      const auto byte = static_cast<uint8_t>(text[i]);
      const bool is_final = automaton.is_final(state);
      BASS_CHECK(!is_final || automaton.is_accepting(state));
      state = picks ? some_next(automaton, state, byte) : automaton.next(state, byte);
      BASS_CHECK(!is_final || state == GrammarAutomaton::kDead);
    }
    automaton.forget();
  }
  return 0;
}
