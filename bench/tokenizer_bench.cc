// How fast tokenizers encode English text on one thread, in bytes a second: BASS_BENCH_MODEL's (a GGUF file), and the
// small ones of the tests, one of each kind. These have short tokens: a real vocabulary merges more and decides less.
//
//   BASS_BENCH_MODEL=model.gguf bass_tokenizer_bench
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "model/gguf_vocab.h"
#include "text/sentencepiece_file.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json.h"

namespace bass {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// About a megabyte of the project's own English.
std::string english() {
  const std::string once = read_file(BASS_SOURCE "/docs/architecture.md") + read_file(BASS_SOURCE "/README.md");
  std::string text;
  while (text.size() < 1'000'000) text += once;
  return text;
}

void encode(benchmark::State& state, const Tokenizer& tokenizer) {
  const std::string text = english();
  size_t n_tokens = 0;
  for (auto _ : state) {
    const auto ids = tokenizer.encode(text);
    n_tokens = ids->size();
    benchmark::DoNotOptimize(n_tokens);
  }
  state.SetBytesProcessed(static_cast<int64_t>(text.size()) * state.iterations());
  state.counters["bytes_per_token"] = static_cast<double>(text.size()) / static_cast<double>(n_tokens);
}

void add(const std::string& name, Result<VocabData> vocab) {
  Result<std::unique_ptr<Tokenizer>> tokenizer =
      vocab.ok() ? Tokenizer::create(std::move(vocab).value()) : Result<std::unique_ptr<Tokenizer>>(vocab.status());
  if (!tokenizer.ok()) {
    std::fprintf(stderr, "%s\n", tokenizer.status().message().c_str());
    std::exit(2);
  }
  const std::shared_ptr<Tokenizer> owner = std::move(tokenizer).value();
  benchmark::RegisterBenchmark(name.c_str(), [owner](benchmark::State& state) { encode(state, *owner); });
}

void add_kinds() {
  const std::string folder = BASS_SOURCE "/tests/data/tokenizers/";
  const nlohmann::json goldens = nlohmann::json::parse(read_file(folder + "goldens.json"));
  for (const nlohmann::json& kind : goldens.at("kinds")) {
    const auto source = kind.at("source").get<std::string>();
    const auto name = kind.at("name").get<std::string>();
    if (source != "tokenizer.json") {
      add(name, parse_sentencepiece(read_file(folder + source), source));
      continue;
    }
    nlohmann::json whole = kind.at("json");
    nlohmann::json model = nlohmann::json::parse(read_file(folder + kind.at("base").get<std::string>()));
    model.update(kind.at("json").at("model"));
    whole["model"] = std::move(model);
    add(name, parse_tokenizer_json(whole.dump(), name));
  }
}

void add_model(const char* path) {
  const Result<GgufFile> file = GgufFile::open(path);
  add("model", file.ok() ? load_vocab(file.value()) : Result<VocabData>(file.status()));
}

}  // namespace
}  // namespace bass

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (const char* path = std::getenv("BASS_BENCH_MODEL"); path != nullptr) bass::add_model(path);
  bass::add_kinds();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
