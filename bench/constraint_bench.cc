// What masks of allowed tokens cost: random texts of BASS_BENCH_MODEL's tokens (a GGUF file) under one grammar each,
// every text anew along with what earlier ones have made. The time is that of making a mask, or of finding it.
//
//   BASS_BENCH_MODEL=model.gguf bass_constraint_bench
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "model/model_source.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/regex_grammar.h"
#include "text/grammar/token_constraint.h"
#include "text/tokenizer.h"

namespace bass {
namespace {

constexpr int kTexts = 10, kTokens = 60;
constexpr size_t kMaxTokenBytes = 8;  // random texts of long tokens would be short

struct NamedGrammar {
  const char* name;
  const char* schema;  // or null
  const char* regex;
};

constexpr NamedGrammar kGrammars[] = {
    {"any JSON value", "{}", nullptr},
    {"a string of at most 200 characters", R"({"type": "string", "maxLength": 200})", nullptr},
    {"an enum", R"({"enum": ["alpha", "beta", "gamma delta epsilon"]})", nullptr},
    {"people",
     R"({"type": "array", "minItems": 12, "maxItems": 12, "items": {"type": "object", "required": ["name", "age", "city"],
         "properties": {"name": {"type": "string", "maxLength": 16}, "age": {"type": "integer", "minimum": 1, "maximum": 99},
                        "city": {"enum": ["Rome", "Oslo", "Lima"]}}}})",
     nullptr},
    {"[0-9]{1,200}", nullptr, "[0-9]{1,200}"},
    {".* .{1,100}", nullptr, ".* .{1,100}"},
    {"(\\w{1,20} ?){1,200}", nullptr, "(\\w{1,20} ?){1,200}"},
    {"[a-z]*a[a-z]{24}x", nullptr, "[a-z]*a[a-z]{24}x"},
};

Grammar make_grammar(const NamedGrammar& named) {
  if (named.schema != nullptr) return json_schema_grammar(named.schema).value();
  GrammarBuilder builder;
  const Grammar::Sequence root = regex_sequence(builder, named.regex, RegexText::kPlain).value();
  return builder.finish(root).value();
}

std::vector<TokenId> allowed_ids(const uint32_t* mask, const Tokenizer& tokenizer) {
  std::vector<TokenId> ids;
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    if (TokenMask::has(mask, id) && !tokenizer.is_end(id) && tokenizer.token_bytes(id).size() < kMaxTokenBytes)
      ids.push_back(id);
  }
  return ids;
}

// One iteration is one place in a text.
void make_masks(benchmark::State& state, const NamedGrammar& named, const Tokenizer& tokenizer,
                const std::shared_ptr<const TokenTexts>& texts) {
  using Clock = std::chrono::steady_clock;
  const auto constraint = std::make_shared<TokenConstraint>(make_grammar(named), texts);
  (void)constraint->allowed(constraint->start());
  std::mt19937 random(1);
  double max_us = 0;
  ConstraintPlace place(constraint);
  int n_read = 0;
  for (auto _ : state) {
    if (n_read == kTokens || constraint->is_complete(place.state())) {
      place = ConstraintPlace(constraint);
      n_read = 0;
    }
    constraint->trim();
    const auto start = Clock::now();
    const uint32_t* mask = constraint->allowed(place.state());
    const double us = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
    state.SetIterationTime(us * 1e-6);
    max_us = std::max(max_us, us);
    const std::vector<TokenId> ids = allowed_ids(mask, tokenizer);
    if (ids.empty()) {
      if (!constraint->why_stuck(place.state(), true).empty()) return state.SkipWithError("stuck");
      n_read = kTokens;
      continue;
    }
    place.advance(ids[random() % ids.size()]);
    ++n_read;
  }
  state.counters["slowest_us"] = max_us;
}

int run() {
  const char* path = std::getenv("BASS_BENCH_MODEL");
  Result<VocabData> vocab =
      path != nullptr ? open_vocab(path) : Status(invalid_argument("BASS_BENCH_MODEL names no file"));
  Result<std::unique_ptr<Tokenizer>> tokenizer =
      vocab.ok() ? Tokenizer::create(std::move(vocab).value()) : Result<std::unique_ptr<Tokenizer>>(vocab.status());
  if (!tokenizer.ok()) {
    std::fprintf(stderr, "%s\n", tokenizer.status().message().c_str());
    return 2;
  }
  const auto texts = std::make_shared<const TokenTexts>(*tokenizer.value(), tokenizer.value()->vocab_size());
  for (const NamedGrammar& named : kGrammars) {
    benchmark::RegisterBenchmark(named.name, make_masks, named, std::cref(*tokenizer.value()), texts)
        ->UseManualTime()
        ->Iterations(kTexts * kTokens)
        ->Unit(benchmark::kMicrosecond);
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace bass

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  return bass::run();
}
