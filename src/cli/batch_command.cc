// A file of calls as OpenAI's batches have them, answered by one model (docs/server.md).
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>

#include "base/check.h"
#include "cli/arguments.h"
#include "cli/batch_calls.h"
#include "cli/command.h"
#include "cli/engine_loading.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/model_digest.h"
#include "cli/model_store.h"
#include "cli/progress_line.h"
#include "cli/save_file.h"
#include "cli/served_model.h"
#include "cli/terminal_text.h"
#include "cli/validators.h"

namespace bass {
namespace {

using BatchClock = std::chrono::steady_clock;

class BatchCommand final : public Command {
 public:
  [[nodiscard]] std::string_view name() const override { return "batch"; }
  [[nodiscard]] std::string_view summary() const override { return "answer a file of calls, as OpenAI's batches"; }
  [[nodiscard]] std::string_view examples() const override {
    return "  bass batch -m smollm2 -i calls.jsonl -o answers.jsonl\n"
           "  bass batch -m main.gguf -d draft.gguf --model-name gpt-4o-mini -i calls.jsonl -o answers.jsonl\n"
           "\n"
           "A line of calls: {\"custom_id\": \"a\", \"method\": \"POST\", \"url\": \"/v1/chat/completions\", "
           "\"body\": {...}}\n"
           "Each call has a line in the answers as soon as it has ended; a run that was stopped is gone on with by the "
           "same command.\n"
           "What a call does not say is as the command line says. Docs: docs/server.md.";
  }

  void add_options(CLI::App* app) override {
    add_served_options(app, &arguments_);
    const auto add = [&](const char* flag, auto& value, const char* help, const char* type_name) {
      return app->add_option(flag, value, help)->type_name(type_name)->group("Batch");
    };
    add("-i,--input", input_, "JSONL file of calls (-: standard input)", "FILE");
    add("-o,--output", output_, "JSONL file that gets the answers (-: standard output)", "FILE");
    add("--model-name", model_name_, kModelNameHelp, "NAME")->check(not_empty());
  }

  int run(Console* console) override {
    const Status status = answer_all(console);
    const bool is_ours = !status.ok() && console->out.status().ok();  // else `finish` says what became of the output
    const int code = is_ours ? fail(console, status) : was_interrupted_ ? kExitInterrupted : finish(console);
    if (has_hung_) _exit(code);  // an engine's end waits for its step's
    return code != kExitDone || n_failed_ == 0 ? code : kExitFailed;
  }

 private:
  Status answer_all(Console* console) {
    set_served_defaults(&options_);
    BASS_RETURN_IF_ERROR(arguments_.apply(&options_));
    BASS_RETURN_IF_ERROR(check_has_model(options_));
    if (input_.empty()) return invalid_argument("-i FILE: missing; name the file of calls, or - for standard input");
    if (output_.empty()) return invalid_argument("-o FILE: missing; name the file for answers, or -");
    if (output_ != "-" && is_same_file(input_, output_))
      return invalid_argument(fmt::format("-o {}: is the file of calls; name another one", output_));
    BASS_RETURN_IF_ERROR(read_calls());
    if (model_name_.empty()) model_name_ = served_name(options_.engine.model_path);
    BASS_RETURN_IF_ERROR(check_models(calls_, model_name_));
    BASS_ASSIGN_OR_RETURN(const std::string path, resolve_model(options_.engine.model_path));
    BASS_ASSIGN_OR_RETURN(const std::string digest, model_digest(path));
    BASS_ASSIGN_OR_RETURN(answers_, BatchAnswers::open(output_, &console->out, &calls_, options_, digest));
    if (answers_->n_answered() > 0) tell_answered("already ", "", console);
    if (answers_->n_answered() == calls_.size()) return ok_status();
    BASS_ASSIGN_OR_RETURN(engine_, load_engine(options_, console));
    BASS_RETURN_IF_ERROR(run_calls(console));
    tell_end(console);
    return answers_->check_kept();
  }

  Status read_calls() {
    BASS_ASSIGN_OR_RETURN(const std::string text, read_input(input_));
    BASS_ASSIGN_OR_RETURN(calls_, read_batch_calls(input_name(input_), text));
    return ok_status();
  }

  /// Calls begin in their order, as there is room, and end in any.
  Status run_calls(Console* console) {
    start_ = BatchClock::now();
    n_before_ = static_cast<int64_t>(answers_->n_answered());
    BatchRun run(engine_.get(), options_, model_name_);
    ProgressLine line(&console->err);
    std::error_code error;
    const bool has_line =
        output_ == "-" ? !console->out.is_terminal() : !std::filesystem::is_character_file(output_, error);
    size_t next = 0;
    while (true) {
      while (!is_interrupted() && next < calls_.size() && run.has_room(calls_[next].is_timed)) {
        const size_t call_idx = next++;
        if (answers_->is_answered(call_idx)) continue;
        BatchCall& call = calls_[call_idx];
        const std::string body = std::exchange(call.body, {});  // no longer needed
        const auto refused = run.begin(call_idx, call.endpoint, body, answers_->request_id(call_idx));
        if (refused) BASS_RETURN_IF_ERROR(take(*refused, &line, console));
      }
      n_tokens_ = run.n_tokens();
      if (run.is_idle()) return ok_status();
      if (is_interrupted() && !was_interrupted_) {
        run.cancel();
        was_interrupted_ = true;
        heard_at_ = BatchClock::now();
      }
      for (const BatchAnswer& answer : run.wait(kPollInterval)) {
        heard_at_ = BatchClock::now();
        BASS_RETURN_IF_ERROR(take(answer, &line, console));
      }
      if (has_line) line.show([&](int n_columns) { return progress_text(n_columns); });
      has_hung_ = was_interrupted_ && BatchClock::now() - heard_at_ > kMaxCancelling;
      if (has_hung_) return ok_status();
    }
  }

  /// What a server would have answered at another time (5xx) is no answer: the call is run again by the next run.
  Status take(const BatchAnswer& answer, ProgressLine* line, Console* console) {
    constexpr int kFirstServerError = 500;
    if (answer.http_status < kFirstServerError) {
      n_refused_ += answer.http_status == 200 ? 0 : 1;
      return answers_->append(answer);
    }
    if (was_interrupted_) return ok_status();
    ++n_failed_;
    const BatchCall& call = calls_[answer.call_idx];
    line->clear();
    console->err.write(one_line_for_terminal(fmt::format("note: {}: {}", call.origin, answer.body)) + "\n");
    return ok_status();
  }

  /// "120 of 1000 calls, 1437 tokens/s  3:05 left". Until as many have ended as run at once only short ones have, which
  /// say little of the others.
  [[nodiscard]] std::string progress_text(int n_columns) const {
    const auto n_answered = static_cast<int64_t>(answers_->n_answered());
    const auto n_calls = static_cast<int64_t>(calls_.size());
    const int64_t n_done = n_answered - n_before_ - static_cast<int64_t>(n_refused_);  // refusing takes no time
    const int64_t n_left = n_calls - n_answered - static_cast<int64_t>(n_failed_);
    std::string text = fmt::format("{} of {} calls, {:.0f} tokens/s", n_answered, n_calls, speed());
    if (n_done >= engine_->options().max_batch) text += time_left_text(n_done, n_left, elapsed_s());
    return cut_to_columns(text, n_columns - 1);
  }

  [[nodiscard]] double elapsed_s() const { return std::chrono::duration<double>(BatchClock::now() - start_).count(); }
  [[nodiscard]] double speed() const { return static_cast<double>(n_tokens_) / std::max(elapsed_s(), 1e-3); }

  void tell_answered(std::string_view when, std::string_view then, Console* console) const {
    if (output_ == "-") return;
    console->err.write(one_line_for_terminal(fmt::format("note: {} of {} calls are {}in {}{}", answers_->n_answered(),
                                                         calls_.size(), when, output_, then)) +
                       "\n");
  }

  void tell_end(Console* console) const {
    const bool is_whole = answers_->n_answered() == calls_.size();
    const std::string refused =
        n_refused_ == 0 ? "" : fmt::format(" (refused: {}; their \"response\" says why)", n_refused_);
    tell_answered("", refused + (is_whole ? "" : "; the same command goes on"), console);
    const EngineStats stats = engine_->stats();
    console->err.write(
        fmt::format("{} tokens in {:.1f} s, {:.1f} tokens/s; {} prompt tokens read, {} more were there\n", n_tokens_,
                    elapsed_s(), speed(), stats.prefill_tokens, stats.cached_tokens));
  }

  TableArguments arguments_;
  GenerateOptions options_;
  std::string input_, output_, model_name_;
  std::vector<BatchCall> calls_;
  std::unique_ptr<BatchAnswers> answers_;
  std::unique_ptr<Engine> engine_;
  BatchClock::time_point start_, heard_at_;
  int64_t n_before_ = 0;  // answered by earlier runs
  int64_t n_tokens_ = 0;  // that this run's calls have got so far
  size_t n_refused_ = 0;
  size_t n_failed_ = 0;
  bool was_interrupted_ = false;
  bool has_hung_ = false;
};

}  // namespace

std::unique_ptr<Command> make_batch_command() { return std::make_unique<BatchCommand>(); }

}  // namespace bass
