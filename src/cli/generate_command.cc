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
#include "cli/model_digest.h"
#include "cli/model_store.h"
#include "cli/read_files.h"
#include "cli/report.h"
#include "cli/results_file.h"
#include "cli/save_file.h"
#include "cli/terminal_text.h"
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
           "  bass generate -m smollm2 --prompts prompts.jsonl --seed 1 --results answers.jsonl\n"
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
    if (!options_.save.empty() && engine_ != nullptr) {  // what nothing was run for stays as it is
      const Status status = save_file(options_.save, [&](SavedFile* file) {
        return give_json(result, [file](std::string_view piece) { return file->write(piece); });
      });
      if (!status.ok()) return fail(console, status);
    }
    if (!result.on_ended_status.ok() && console->out.status().ok()) return fail(console, result.on_ended_status);
    if (results_ != nullptr) {
      const Status status = results_->check_kept();
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
    if (!options_.save.empty()) BASS_RETURN_IF_ERROR(check_save());
    if (!options_.results.empty()) BASS_RETURN_IF_ERROR(open_results(&prompts, console));
    if (prompts.empty()) return nothing_left();
    const auto load_start = std::chrono::steady_clock::now();
    BASS_ASSIGN_OR_RETURN(engine_, load_engine(options_, console));
    const std::chrono::duration<double> load_time = std::chrono::steady_clock::now() - load_start;
    n_threads_ = engine_->options().n_threads;
    BASS_RETURN_IF_ERROR(check_bias(engine_->model_info().vocab_size));

    LiveView view(&console->err, options_.show_drafts);
    GenerationSettings settings;
    settings.wants_origins = options_.show_drafts;
    const bool shows_results = options_.results == "-" && console->out.is_terminal();
    const bool has_view = console->err.has_cursor() && !options_.quiet && !shows_results;
    if (has_view) settings.on_progress = [&view](const GenerationResult& result) { view.update(result); };
    if (results_ != nullptr) settings.on_ended = [=, this](PromptResult* prompt) { return take(prompt, has_view); };
    BASS_ASSIGN_OR_RETURN(GenerationResult result, run_generation(engine_.get(), std::move(prompts), settings));
    result.load_s = load_time.count();
    result.model = model_label(options_.engine.model_path, engine_->model_info().is_synthetic);
    if (const auto draft = engine_->draft_info())
      result.draft = model_label(options_.engine.draft_path, draft->is_synthetic);
    return result;
  }

  [[nodiscard]] Status check_save() const {
    BASS_RETURN_IF_ERROR(check_save_path("--save", options_.save));
    return check_not_read("--save", options_.save,
                          {.models = {options_.engine.model_path, options_.engine.draft_path},
                           .files = {options_.file, options_.prompts}});
  }

  /// Leaves the prompts whose results are not there.
  Status open_results(std::vector<PromptSpec>* prompts, Console* console) {
    BASS_ASSIGN_OR_RETURN(const std::string path, resolve_model(options_.engine.model_path));
    BASS_ASSIGN_OR_RETURN(const std::string model, model_digest(path));
    BASS_ASSIGN_OR_RETURN(results_, ResultsFile::open(options_.results, &console->out));
    if (!options_.save.empty() && is_same_file(options_.results, options_.save)) {
      return invalid_argument(
          fmt::format("--save {}: is the file of --results, which it would replace; name another one", options_.save));
    }
    n_prompts_ = prompts->size();
    BASS_ASSIGN_OR_RETURN(n_results_, results_->skip_done(options_, model, prompts));
    if (n_results_ > 0) tell_results("already ", console);
    return ok_status();
  }

  void tell_results(std::string_view when, Console* console, std::string_view then = "") const {
    if (results_ == nullptr || options_.results == "-" || options_.quiet) return;
    console->err.write(one_line_for_terminal(fmt::format("note: {} of {} prompts are {}in {}{}", n_results_, n_prompts_,
                                                         when, options_.results, then)) +
                       "\n");
  }

  [[nodiscard]] GenerationResult nothing_left() const {
    GenerationResult result;
    result.model = options_.engine.model_path;
    return result;
  }

  Status take(PromptResult* prompt, bool has_view) {
    BASS_ASSIGN_OR_RETURN(const bool is_kept, results_->append(*prompt, options_.show_drafts));
    n_results_ += int{is_kept};
    if (!options_.json && options_.save.empty() && !options_.show_drafts) release_texts(has_view, prompt);
    return ok_status();
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

  Status give_json(const GenerationResult& result, const std::function<Status(std::string_view)>& take) const {
    nlohmann::ordered_json explanation;
    if (options_.explain_speculation) explanation = explanation_json(result, options_);
    return give_result_json(result, options_.show_drafts, explanation, take);
  }

  void print(const GenerationResult& result, Console* console) const {
    if (options_.json) {
      const Status ignored = give_json(result, [console](std::string_view piece) {
        console->out.write(piece);
        return console->out.status();  // which is looked at below
      });
    } else if (results_ == nullptr) {
      print_samples(result, options_, &console->out);
    }
    if (!console->out.status().ok() || engine_ == nullptr) return;
    tell_results("", console, result.was_interrupted ? "; the same command goes on" : "");
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
  std::unique_ptr<ResultsFile> results_;  // none: samples are printed
  std::unique_ptr<Engine> engine_;        // ends behind all that is printed; none: nothing was left to run
  size_t n_prompts_ = 0;
  int n_results_ = 0;  // of these
  int n_threads_ = 1;
};

}  // namespace

std::unique_ptr<Command> make_generate_command() { return std::make_unique<GenerateCommand>(); }

}  // namespace bass
