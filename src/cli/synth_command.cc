#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>

#include "base/check.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/model_store.h"
#include "cli/read_files.h"
#include "cli/save_file.h"
#include "cli/synth_config.h"
#include "cli/terminal_text.h"
#include "model/model_source.h"
#include "model/random_blocks.h"
#include "text/plain_text.h"
#include "text/suggest.h"
#include "text/tokenizer.h"

namespace bass {
namespace {

/// As --type spells them.
std::vector<std::string> type_names() {
  std::vector<std::string> names;
  for (const DType type : random_types()) names.push_back(lower_case(dtype_info(type).name));
  return names;
}

Result<DType> parse_type(const std::string& text) {
  const std::vector<std::string> names = type_names();
  const auto found = std::ranges::find(names, lower_case(text));
  if (found != names.end()) return random_types()[static_cast<size_t>(found - names.begin())];
  const std::string meant = nearest(lower_case(text), names);
  return invalid_argument(fmt::format("--type {}: must be {}{}", text, fmt::join(names, ", "),
                                      meant.empty() ? "" : fmt::format("; did you mean {}?", meant)));
}

Result<uint64_t> parse_seed(const std::string& text) {
  uint64_t seed = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error == std::errc{} && stop == text.data() + text.size()) return seed;
  return invalid_argument(fmt::format("--seed {}: must be a whole number from 0 to 18446744073709551615", text));
}

/// Another file's vocabulary, checked to be one that BASS can use.
Result<VocabData> read_vocab(const std::string& model) {
  BASS_ASSIGN_OR_RETURN(const std::string path, resolve_model(model));
  BASS_ASSIGN_OR_RETURN(VocabData vocab, open_vocab(path));
  BASS_RETURN_IF_ERROR(Tokenizer::create(vocab).status());
  return vocab;
}

class SynthCommand final : public Command {
 public:
  [[nodiscard]] std::string_view name() const override { return "synth"; }
  [[nodiscard]] std::string_view summary() const override {
    return "write a model of random weights in a real model's shape, to measure with";
  }
  [[nodiscard]] std::string_view examples() const override {
    return "  bass synth --config llama-8b -o llama-8b.gguf\n"
           "  bass synth --config llama-1b --type q8_0 --seed 7 --vocab-from smollm2 -o draft.gguf\n"
           "  bass synth --config config.json -o model.gguf";
  }

  void add_options(CLI::App* app) override {
    std::vector<std::string_view> shapes;
    for (const SyntheticShape& shape : synthetic_shapes()) shapes.push_back(shape.name);
    app->add_option("--config", config_, fmt::format("{}, or a config.json of a llama", fmt::join(shapes, ", ")))
        ->type_name("NAME|FILE");
    app->add_option("--type", type_,
                    fmt::format("format of the weights: {} [{}]", fmt::join(type_names(), ", "), type_))
        ->type_name("TYPE");
    app->add_option("--seed", seed_, fmt::format("other seeds give other weights [{}]", seed_))->type_name("N");
    app->add_option("--vocab-from", vocab_from_, "take this file's tokenizer [letters only]")->type_name("MODEL");
    app->add_option("-o,--output", output_, "the file to write")->type_name("FILE");
    arguments_.add(app, {"threads"});
  }

  int run(Console* console) override { return finish(console, synth(console)); }

 private:
  Status synth(Console* console) {
    BASS_RETURN_IF_ERROR(arguments_.apply(&options_));
    if (config_.empty()) return invalid_argument("--config: missing; name a shape, like --config llama-1b");
    if (output_.empty()) return invalid_argument("-o FILE: missing; name the file to write");
    BASS_ASSIGN_OR_RETURN(const SyntheticModel model, read_model());
    BASS_RETURN_IF_ERROR(check_save_path("-o", output_));
    BASS_RETURN_IF_ERROR(check_not_read("-o", output_, {{vocab_from_}, {config_}}));
    BASS_RETURN_IF_ERROR(write(model));
    console->out.write(fmt::format("{}: {}, {}, {:.1f} MiB, synthetic (random weights, seed {})\n",
                                   for_terminal(output_), model.config.name, type_, mib(synthetic_file_bytes(model)),
                                   model.seed));
    return ok_status();
  }

  Result<SyntheticModel> read_model() {
    BASS_ASSIGN_OR_RETURN(const DType type, parse_type(type_));
    BASS_ASSIGN_OR_RETURN(const uint64_t seed, parse_seed(seed_));
    BASS_ASSIGN_OR_RETURN(SyntheticModel model, read_synth_config(config_));
    model.type = type;
    model.seed = seed;
    if (!vocab_from_.empty()) {
      BASS_ASSIGN_OR_RETURN(model.vocab, read_vocab(vocab_from_));
    }
    BASS_RETURN_IF_ERROR(check_synthetic_model(model, fmt::format("--config {}", config_)));
    pad_vocab(model.config.vocab_size, &model.vocab);
    return model;
  }

  Status write(const SyntheticModel& model) const {
    BASS_ASSIGN_OR_RETURN(const std::unique_ptr<SavedFile> file, SavedFile::create(output_));
    BASS_RETURN_IF_ERROR(file->reserve(synthetic_file_bytes(model)));
    ThreadTeam team(threads_or_all(options_.engine.n_threads));
    const auto write_part = [&](std::span<const std::byte> bytes) -> Status {
      BASS_RETURN_IF_ERROR(check_interrupted());
      return file->write({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    };
    BASS_RETURN_IF_ERROR(write_synthetic_model(model, &team, write_part));
    return file->keep();
  }

  static double mib(int64_t n_bytes) { return static_cast<double>(n_bytes) / (1024.0 * 1024.0); }

  TableArguments arguments_;
  GenerateOptions options_;
  std::string config_;
  std::string type_ = "q4_1";
  std::string seed_ = "0";
  std::string vocab_from_;
  std::string output_;
};

}  // namespace

std::unique_ptr<Command> make_synth_command() { return std::make_unique<SynthCommand>(); }

}  // namespace bass
