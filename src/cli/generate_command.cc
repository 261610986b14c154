#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>

#include "base/check.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/engine_loading.h"
#include "cli/explanation.h"
#include "cli/generation.h"
#include "cli/live_view.h"
#include "cli/report.h"
#include "cli/save_file.h"
#include "engine/machine.h"

namespace bass {
namespace {

class GenerateCommand final : public Command {
 public:
  [[nodiscard]] std::string_view name() const override { return "generate"; }
  [[nodiscard]] std::string_view summary() const override { return "continue prompts: n samples each, in one batch"; }
  [[nodiscard]] std::string_view examples() const override {
    return "  bass generate -m smollm2 -p 'def fibonacci(n):' -n 8\n"
           "  bass generate -m smollm2 --chat -f question.txt -n 4 --time-budget 2.5\n"
           "  bass generate -m smollm2 --prompts prompts.jsonl --seed 1 --json > answers.json\n"
           "  bass generate -m main.gguf -d draft.gguf -p 'Once upon' --show-drafts --explain-speculation";
  }
  void add_options(CLI::App* app) override { arguments_.add_all(app); }

  int run(Console* console) override {
    Result<GenerationResult> result = generate(console);
    if (!result.ok()) return fail(console, result.status());
    const int code = give(result.value(), console);
    if (result.value().has_hung) _exit(code);  // an engine's end waits for its step's
    return code;
  }

 private:
  /// Prints and saves; the exit code.
  int give(const GenerationResult& result, Console* console) {
    print(result, console);
    if (!options_.save.empty()) {
      const Status status = save_file(options_.save, result_text(result));
      if (!status.ok()) return fail(console, status);
    }
    const int code = finish(console);
    if (result.was_interrupted) return kExitInterrupted;  // a hung-up terminal cannot be written to either
    if (code != kExitDone) return code;
    return report_errors(result, console);
  }

  Result<GenerationResult> generate(Console* console) {
    BASS_RETURN_IF_ERROR(arguments_.apply(&options_));
    BASS_RETURN_IF_ERROR(check_has_model(options_));
    BASS_ASSIGN_OR_RETURN(std::vector<PromptSpec> prompts, read_prompts(options_));
    if (!options_.save.empty()) BASS_RETURN_IF_ERROR(check_save_path("--save", options_.save));
    const auto load_start = std::chrono::steady_clock::now();
    BASS_ASSIGN_OR_RETURN(engine_, load_engine(options_, console));
    const std::chrono::duration<double> load_time = std::chrono::steady_clock::now() - load_start;
    n_threads_ = engine_->options().n_threads;
    BASS_RETURN_IF_ERROR(check_bias(engine_->model_info().vocab_size));

    LiveView view(&console->err, options_.show_drafts);
    GenerationSettings settings;
    settings.wants_origins = options_.show_drafts;
    if (console->err.has_cursor() && !options_.quiet) {
      settings.on_progress = [&view](const GenerationResult& result) { view.update(result); };
    }
    BASS_ASSIGN_OR_RETURN(GenerationResult result, run_generation(engine_.get(), std::move(prompts), settings));
    result.load_s = load_time.count();
    result.model = model_label(options_.engine.model_path, engine_->model_info().is_synthetic);
    if (const auto draft = engine_->draft_info())
      result.draft = model_label(options_.engine.draft_path, draft->is_synthetic);
    return result;
  }

  /// The command line's; a prompts file's line is the engine's to check.
  [[nodiscard]] Status check_bias(int vocab_size) const {
    for (const auto& [id, bias] : options_.request.sampling.logit_bias) {
      if (id < vocab_size) continue;
      return invalid_argument(
          fmt::format("--logit-bias {}:{}: the model's token ids end at {}", id, bias, vocab_size - 1));
    }
    return ok_status();
  }

  [[nodiscard]] std::string result_text(const GenerationResult& result) const {
    constexpr auto kReplace = nlohmann::json::error_handler_t::replace;
    auto json = result_json(result, options_.show_drafts);
    if (options_.explain_speculation) json["speculation"]["explanation"] = explanation_json(result, options_);
    return json.dump(-1, ' ', false, kReplace) + "\n";
  }

  void print(const GenerationResult& result, Console* console) const {
    if (options_.json) {
      console->out.write(result_text(result));
    } else {
      print_samples(result, options_, &console->out);
    }
    if (!console->out.status().ok()) return;
    if (options_.explain_speculation) console->err.write(explanation_text(result, options_));
    if (options_.json || options_.quiet || result.was_interrupted) return;
    // A GPU's work is no part of what the processor could do.
    const bool runs_here = engine_->options().device == "cpu";
    const Result<double> peak_tops = runs_here ? best_peak_tops(n_threads_) : Result<double>(0.0);
    console->err.write(summary_text(result, options_, peak_tops.ok() ? peak_tops.value() : 0));
  }

  /// Choices that failed make the run a failed one; the others were printed all the same.
  static int report_errors(const GenerationResult& result, Console* console) {
    for (const PromptResult& prompt : result.prompts) {
      for (const ChoiceResult& choice : prompt.choices) {
        if (choice.finish_reason != FinishReason::kError) continue;
        fail(console, Status(choice.error.code(),
                             fmt::format("{}, sample {}: {}", prompt.origin, choice.index, choice.error.message())));
        return kExitFailed;
      }
    }
    return kExitDone;
  }

  TableArguments arguments_;
  GenerateOptions options_;
  std::unique_ptr<Engine> engine_;  // ends behind all that is printed
  int n_threads_ = 1;
};

}  // namespace

std::unique_ptr<Command> make_generate_command() { return std::make_unique<GenerateCommand>(); }

}  // namespace bass
