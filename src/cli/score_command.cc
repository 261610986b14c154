#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/engine_loading.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/report.h"
#include "cli/scoring.h"
#include "cli/terminal_text.h"
#include "text/user_json.h"

namespace bass {
namespace {

using Json = nlohmann::ordered_json;

class ScoreCommand final : public Command {
 public:
  [[nodiscard]] std::string_view name() const override { return "score"; }
  [[nodiscard]] std::string_view summary() const override { return "log-probabilities of a text's tokens"; }
  [[nodiscard]] std::string_view examples() const override {
    return "  bass score -m smollm2 -p 'The capital of France is Paris.'\n"
           "  bass score -m smollm2 --json < text.txt";
  }
  void add_options(CLI::App* app) override {
    arguments_.add(app, {"model", "quantize", "prompt", "file", "threads", "context", "kv_memory", "max_step_tokens",
                         "attention", "activations", "kv_type", "device", "json"});
  }
  int run(Console* console) override {
    const Result<std::string> result = compute(console);
    return result.ok() ? finish(console, result.value()) : fail(console, result.status());
  }

 private:
  Result<std::string> compute(Console* console) {
    BASS_RETURN_IF_ERROR(arguments_.apply(&options_));
    BASS_RETURN_IF_ERROR(check_has_model(options_));
    PromptSpec spec;
    BASS_ASSIGN_OR_RETURN(spec.request.prompt, read_text(options_));
    if (spec.request.prompt.empty()) return invalid_argument("the text is empty; give at least one character");
    BASS_RETURN_IF_ERROR(check_utf8("the text", spec.request.prompt));
    BASS_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, load_engine(options_, console));
    BASS_ASSIGN_OR_RETURN(const std::vector<Score> scores,
                          score_prompts(engine.get(), {std::move(spec)}, is_interrupted));
    const Score& score = scores.front();
    const std::string model = model_label(options_.engine.model_path, engine->model_info().is_synthetic);
    if (!options_.json) return text(model, score);
    Json json{{"model", model}};
    json.update(score_json(score));
    return json_line(json);
  }

  static std::string text(const std::string& model, const Score& score) {
    std::string lines =
        fmt::format("model       {}\ntokens      {}\n", for_terminal(model), score.prompt.prompt_tokens.size());
    lines += score.perplexity.has_value() ? fmt::format("perplexity  {:.4f}\n", *score.perplexity)
                                          : "perplexity  - (one token has nothing before it)\n";
    return lines + "the log-probability of each token: --json\n";
  }

  TableArguments arguments_;
  GenerateOptions options_;
};

}  // namespace

std::unique_ptr<Command> make_score_command() { return std::make_unique<ScoreCommand>(); }

}  // namespace bass
