#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <fstream>

#include "base/check.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/engine_loading.h"
#include "cli/generation.h"
#include "cli/live_view.h"
#include "cli/report.h"

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
    print(result.value(), console);
    if (Status status = save(result.value()); !status.ok()) return fail(console, status);
    const int code = finish(console);
    if (code != kExitDone) return code;
    if (result.value().was_interrupted) return kExitInterrupted;
    return report_errors(result.value(), console);
  }

 private:
  Result<GenerationResult> generate(Console* console) {
    BASS_RETURN_IF_ERROR(arguments_.apply(&options_));
    BASS_RETURN_IF_ERROR(check_has_model(options_));
    BASS_ASSIGN_OR_RETURN(std::vector<PromptSpec> prompts, read_prompts(options_));
    const auto load_start = std::chrono::steady_clock::now();
    BASS_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, load_engine(options_.engine));
    const std::chrono::duration<double> load_time = std::chrono::steady_clock::now() - load_start;
    n_threads_ = engine->options().n_threads;

    LiveView view(&console->err, options_.show_drafts);
    GenerationSettings settings;
    settings.wants_origins = options_.show_drafts;
    if (console->err.has_cursor() && !options_.quiet) {
      settings.on_progress = [&view](const GenerationResult& result) { view.update(result); };
    }
    BASS_ASSIGN_OR_RETURN(GenerationResult result, run_generation(engine.get(), std::move(prompts), settings));
    result.load_s = load_time.count();
    result.model = options_.engine.model_path;
    if (!options_.engine.draft_path.empty()) result.draft = options_.engine.draft_path;
    return result;
  }

  static std::string result_text(const GenerationResult& result) {
    constexpr auto kReplace = nlohmann::json::error_handler_t::replace;
    return result_json(result).dump(-1, ' ', false, kReplace) + "\n";
  }

  [[nodiscard]] Status save(const GenerationResult& result) const {
    if (options_.save.empty()) return ok_status();
    std::ofstream file(options_.save, std::ios::binary | std::ios::trunc);
    file << result_text(result);
    file.close();
    return file ? ok_status() : resource_exhausted(fmt::format("--save {}: cannot be written", options_.save));
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
    const Result<MachinePeaks> peaks = cached_machine_peaks(n_threads_);
    console->err.write(summary_text(result, peaks.ok() ? peaks.value() : MachinePeaks{}));
  }

  /// Choices that failed make the run a failed one; the others were printed all the same.
  static int report_errors(const GenerationResult& result, Console* console) {
    for (const PromptResult& prompt : result.prompts) {
      for (const ChoiceResult& choice : prompt.choices) {
        if (choice.finish_reason != FinishReason::kError) continue;
        console->err.write(
            fmt::format("error: {}, sample {}: {}\n", prompt.origin, choice.index, choice.error.message()));
        return kExitFailed;
      }
    }
    return kExitDone;
  }

  TableArguments arguments_;
  GenerateOptions options_;
  int n_threads_ = 1;
};

}  // namespace

std::unique_ptr<Command> make_generate_command() { return std::make_unique<GenerateCommand>(); }

}  // namespace bass
