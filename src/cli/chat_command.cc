// A conversation in the terminal.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <utility>

#include "base/check.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/conversation.h"
#include "cli/engine_loading.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/line_editor.h"
#include "cli/terminal_text.h"

namespace bass {
namespace {

constexpr std::string_view kHelp =
    "/system TEXT  set the system message (without a text: none)\n"
    "/reset        forget the conversation\n"
    "/exit, /quit  end (Ctrl-D too); Ctrl-C stops an answer\n";

class ChatCommand final : public Command {
 public:
  [[nodiscard]] std::string_view name() const override { return "chat"; }
  [[nodiscard]] std::string_view summary() const override { return "talk with a model: a line in, an answer out"; }
  [[nodiscard]] std::string_view examples() const override {
    return "  bass chat -m smollm2\n"
           "  bass chat -m main.gguf -d draft.gguf --system 'Answer in one sentence.' --temperature 0\n"
           "  printf 'What is 2+2?\\nAnd twice that?\\n' | bass chat -m smollm2 --seed 1 > answers.txt\n"
           "\n"
           "A line is a message. Commands are not sent: /reset, /system TEXT, /help, /exit or /quit.\n"
           "On a terminal lines can be edited, text that is pasted is one message, and /help tells the keys.\n"
           "Ctrl-C stops an answer, which stays in the conversation as far as it came; at the prompt it clears the "
           "line. Where the input is no terminal it ends the program.\n"
           "With --seed N, answer j of the run (from 0) uses seed N + j.";
  }

  void add_options(CLI::App* app) override {
    arguments_.add(app, {"model",
                         "draft",
                         "quantize",
                         "system",
                         "chat_template_kwargs",
                         "max_tokens",
                         "stop",
                         "time_budget",
                         "temperature",
                         "top_p",
                         "top_k",
                         "min_p",
                         "repetition_penalty",
                         "presence_penalty",
                         "frequency_penalty",
                         "logit_bias",
                         "seed",
                         "drafter",
                         "draft_length",
                         "verify",
                         "threads",
                         "context",
                         "kv_memory",
                         "prefix_cache",
                         "attention",
                         "activations",
                         "kv_type",
                         "device"});
    app->get_option("--max-tokens")->description(fmt::format("new tokens an answer, at most [{}]", kAnswerTokens));
    app->get_option("--system")->description("system message");
  }

  int run(Console* console) override {
    options_.request.chat = true;
    if (Status status = start(console); !status.ok()) return fail(console, status);
    is_interactive_ = isatty(STDIN_FILENO) == 1;
    editor_ = LineEditor::create(console->err);
    if (is_interactive_) console->err.write("/help lists the commands; Ctrl-D ends.\n");
    while (!has_ended_) {
      const Result<std::optional<std::string>> line = next_line(console);
      if (!line.ok() && forgives(line.status(), console)) continue;
      if (!line.ok()) return end_input(line.status(), console);
      if (!line.value().has_value()) break;
      const Status status = take(*line.value(), console);
      if (!status.ok() && !(is_interactive_ && status.code() == StatusCode::kInvalidArgument))
        return fail(console, status);
      if (!status.ok()) fail(console, status);  // a person can mend it
      if (!console->out.status().ok()) break;
    }
    if (is_interactive_ && !has_ended_) console->err.write("\n");
    return finish(console);
  }

 private:
  Status start(Console* console) {
    options_.request.max_tokens = kAnswerTokens;
    BASS_RETURN_IF_ERROR(arguments_.apply(&options_));
    BASS_RETURN_IF_ERROR(check_has_model(options_));
    options_.engine.max_batch = 1;
    BASS_ASSIGN_OR_RETURN(engine_, load_engine(options_, console));
    conversation_ = std::make_unique<Conversation>(engine_.get(), options_.request);
    return conversation_->check();
  }

  Result<std::optional<std::string>> next_line(Console* console) {
    if (editor_ != nullptr) return editor_->next();
    if (is_interactive_) console->err.write("> ");
    return lines_.next();
  }

  /// Whether no more has happened than a person's Ctrl-C, which clears the line. Says how to end the first time.
  bool forgives(const Status& status, Console* console) {
    if (!is_interactive_ || status.code() != StatusCode::kCancelled || !forget_interrupt()) return false;
    lines_ = LineReader();
    if (editor_ == nullptr) console->err.write("\n");
    if (!std::exchange(knows_the_end_, true)) console->err.write("(the line is cleared; Ctrl-D or /exit ends)\n");
    return true;
  }

  int end_input(const Status& status, Console* console) const {
    if (status.code() != StatusCode::kCancelled) return fail(console, status);
    if (is_interactive_) console->err.write("\n");
    return kExitInterrupted;
  }

  /// A line of the user, or several of an editor's: a command, or a message that is answered.
  Status take(std::string line, Console* console) {
    constexpr const char* kBlanks = " \t\n";
    while (line.ends_with('\r')) line.pop_back();
    BASS_RETURN_IF_ERROR(check_utf8("the line", line));
    if (line.find_first_not_of(kBlanks) == std::string::npos) return ok_status();
    const size_t word_end = line.find_first_of(kBlanks);
    const std::string word = line.substr(0, word_end);
    const bool is_command = word.size() > 1 && word[0] == '/' && word.find('/', 1) == std::string::npos;
    if (!is_command) return answer(line, console);
    const size_t begin = line.find_first_not_of(kBlanks, std::min(word_end, line.size()));
    return obey(word, begin == std::string::npos ? "" : line.substr(begin), console);
  }

  Status obey(const std::string& word, const std::string& text, Console* console) {
    if (word == "/exit" || word == "/quit") {
      has_ended_ = true;
    } else if (word == "/reset") {
      conversation_->reset();
    } else if (word == "/system") {
      conversation_->set_system(text);
    } else if (word == "/help") {
      console->err.write(kHelp);
      if (editor_ != nullptr) console->err.write(kEditorHelp);
    } else {
      return invalid_argument(
          fmt::format("{}: no such command; /help lists them (a line that begins with a blank is sent)", word));
    }
    return ok_status();
  }

  Status answer(const std::string& message, Console* console) {
    Output& out = console->out;
    const auto show = [&out](const std::string& text) {
      out.write(out.is_terminal() ? for_terminal(text) : text);
      return out.status().ok();
    };
    BASS_ASSIGN_OR_RETURN(const Answer answer, conversation_->answer(message, show));
    out.write("\n");
    if (answer.n_forgotten > 0) {
      console->err.write(fmt::format("(the oldest {} messages are forgotten: the context has no room for them)\n",
                                     answer.n_forgotten));
    }
    if (answer.reason == FinishReason::kLength) {
      console->err.write(answer.is_context_full ? "(cut: the context is full)\n" : "(cut: --max-tokens allows more)\n");
    }
    if (answer.reason == FinishReason::kDeadline) console->err.write("(cut: --time-budget is over)\n");
    // A person's Ctrl-C has only stopped the answer. Whoever reads a file of answers must not take a cut one for whole.
    if (is_interrupted() && !(is_interactive_ && forget_interrupt())) has_ended_ = true;
    return ok_status();
  }

  TableArguments arguments_;
  GenerateOptions options_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Conversation> conversation_;
  LineReader lines_;                    // where no person edits them
  std::unique_ptr<LineEditor> editor_;  // where one does
  bool is_interactive_ = false;
  bool knows_the_end_ = false;
  bool has_ended_ = false;
};

}  // namespace

std::unique_ptr<Command> make_chat_command() { return std::make_unique<ChatCommand>(); }

}  // namespace bass
