#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/engine_loading.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/terminal_text.h"

namespace bass {
namespace {

using Json = nlohmann::ordered_json;

struct Score {
  std::string model;
  Event prompt;                      ///< of kind kPrompt
  std::optional<double> perplexity;  ///< none for a text of one token
};

/// Waits for the request's end; its kPrompt event is the score.
Result<Event> wait_for_prompt(Engine* engine, RequestId id, EventQueue* events) {
  constexpr std::chrono::duration<double> kPollInterval{0.1};
  Event prompt;
  bool is_cancelled = false;
  while (true) {
    Event event;
    if (events->wait(&event, kPollInterval)) {
      if (!event.error.ok()) return event.error;
      if (event.kind == Event::Kind::kDone) break;
      if (event.kind == Event::Kind::kPrompt) prompt = std::move(event);
    }
    if (is_interrupted() && !is_cancelled) {
      engine->cancel(id);
      is_cancelled = true;
    }
  }
  if (is_cancelled) return Status(StatusCode::kCancelled, "interrupted");
  return prompt;
}

std::optional<double> perplexity_of(const std::vector<float>& logprobs) {
  if (logprobs.empty()) return std::nullopt;
  double sum = 0;
  for (const float logprob : logprobs) sum += static_cast<double>(logprob);
  return std::exp(-sum / static_cast<double>(logprobs.size()));
}

Json score_json(const Score& score) {
  Json logprobs = Json::array({nullptr});  // nothing precedes the first token
  for (const float logprob : score.prompt.prompt_logprobs) logprobs.push_back(logprob);
  Json top5 = Json::array();
  for (const auto& [id, logprob] : score.prompt.last_top5) top5.push_back(Json::array({id, logprob}));
  return {{"model", score.model},
          {"ids", score.prompt.prompt_tokens},
          {"logprobs", std::move(logprobs)},
          {"last_top5", std::move(top5)},
          {"perplexity", score.perplexity.has_value() ? Json(*score.perplexity) : Json(nullptr)}};
}

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
    const Result<Score> score = compute(console);
    if (!score.ok()) return fail(console, score.status());
    return finish(console, options_.json ? score_json(score.value()).dump() + "\n" : text(score.value()));
  }

 private:
  Result<Score> compute(Console* console) {
    BASS_RETURN_IF_ERROR(arguments_.apply(&options_));
    BASS_RETURN_IF_ERROR(check_has_model(options_));
    Request request;
    BASS_ASSIGN_OR_RETURN(request.prompt, read_text(options_));
    if (request.prompt.empty()) return invalid_argument("the text is empty; give at least one character");
    BASS_RETURN_IF_ERROR(check_utf8("the text", request.prompt));
    request.max_tokens = 0;
    request.prompt_logprobs = true;
    request.speculation.drafter = DrafterChoice::kOff;
    BASS_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, load_engine(options_, console));
    const auto events = std::make_shared<EventQueue>();
    BASS_ASSIGN_OR_RETURN(const RequestId id, engine->submit(std::move(request), events));
    Score score;
    BASS_ASSIGN_OR_RETURN(score.prompt, wait_for_prompt(engine.get(), id, events.get()));
    score.model = model_label(options_.engine.model_path, engine->model_info().is_synthetic);
    score.perplexity = perplexity_of(score.prompt.prompt_logprobs);
    return score;
  }

  static std::string text(const Score& score) {
    std::string lines =
        fmt::format("model       {}\ntokens      {}\n", for_terminal(score.model), score.prompt.prompt_tokens.size());
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
