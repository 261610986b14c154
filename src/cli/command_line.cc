#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <clocale>

#include "base/caught_status.h"
#include "base/check.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/help_text.h"
#include "text/suggest.h"

#ifndef BASS_VERSION
#define BASS_VERSION "unknown"
#endif

namespace bass {
namespace {

using CommandSpan = std::span<const std::unique_ptr<Command>>;

std::vector<std::unique_ptr<Command>> make_commands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(make_generate_command());
  commands.push_back(make_chat_command());
  commands.push_back(make_serve_command());
  commands.push_back(make_batch_command());
  commands.push_back(make_score_command());
  commands.push_back(make_tokenize_command());
  commands.push_back(make_detokenize_command());
  commands.push_back(make_info_command());
  commands.push_back(make_convert_command());
  commands.push_back(make_pull_command());
  commands.push_back(make_bench_command());
  commands.push_back(make_synth_command());
  commands.push_back(make_features_command());
  commands.push_back(make_options_command());
  return commands;
}

constexpr std::string_view kExamples =
    "Examples:\n"
    "  bass pull smollm2\n"
    "  bass generate -m smollm2 --chat -p 'Write a Python function that adds two numbers.' -n 8\n"
    "  bass generate --help";

void add_commands(CommandSpan commands, CLI::App* app) {
  app->set_help_flag("-h,--help", "print this help");
  app->allow_extras();
  app->require_subcommand(0, 1);
  for (const auto& command : commands) {
    CLI::App* sub = app->add_subcommand(std::string(command->name()), std::string(command->summary()));
    sub->footer("Examples:\n" + std::string(command->examples()));
    command->add_options(sub);
    add_commands(command->subcommands(), sub);
  }
}

Status unknown_command(CommandSpan commands, const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const auto& command : commands) names.emplace_back(command->name());
  const std::string path = command_path(app);
  const std::string suggestion = nearest(word, names);
  return invalid_argument(fmt::format("unknown command '{}'; {}", word,
                                      suggestion.empty() ? fmt::format("`{} --help` lists the commands", path)
                                                         : fmt::format("did you mean `{} {}`?", path, suggestion)));
}

/// An option of `generate`, typed straight after "bass", is taken for what it most likely is: a forgotten command.
Status option_without_command(const CLI::App& app, const std::string& option) {
  const std::string name = option.substr(0, option.find('='));
  if (app.get_subcommand("generate")->get_option_no_throw(name) == nullptr) return check_no_extras(app);
  return invalid_argument(fmt::format("{}: there is no command; did you mean `bass generate {} ...`?", name, option));
}

/// `bass -m MODEL generate`: the program itself would take the option and the command miss it. CLI11 leaves to the
/// program also what follows "--" where the command takes no such argument.
Status check_nothing_outside(const CLI::App& command, const std::vector<std::string>& words) {
  const CLI::App* parent = command.get_parent();
  if (parent == nullptr) return ok_status();
  BASS_RETURN_IF_ERROR(check_nothing_outside(*parent, words));
  const std::vector<std::string> extras = parent->remaining();
  if (extras.empty()) return ok_status();
  const std::string& extra = extras.front();
  const bool is_before = std::ranges::find(words, extra) < std::ranges::find(words, command.get_name());
  if (!is_before) return unexpected_argument(command, extra);
  return invalid_argument(
      fmt::format("{}: stands before the command; type `{} {} ...`", extra, command_path(command), extra));
}

/// CLI11 says "--seed: 1 required N missing".
Status missing_value(const CLI::ArgumentMismatch& error) {
  const std::string_view text = error.what();
  constexpr std::string_view kBefore = " required ", kAfter = " missing";
  const size_t colon = text.find(": "), begin = text.find(kBefore), end = text.rfind(kAfter);
  if (colon == text.npos || begin == text.npos || end == text.npos) return invalid_argument(error.what());
  const size_t name = begin + kBefore.size();
  return invalid_argument(fmt::format("{}: needs a value {}", text.substr(0, colon), text.substr(name, end - name)));
}

/// The command line as typed names no command, or not which of a command's own.
int run_without_command(CommandSpan commands, const CLI::App& app, Console* console) {
  const bool is_program = app.get_parent() == nullptr;
  if (is_program && app.get_option("--version")->count() > 0) {
    console->out.write(fmt::format("bass {}\n", BASS_VERSION));
    return finish(console);
  }
  const std::vector<std::string> extras = app.remaining();
  if (extras.empty()) {
    console->err.write(help_text(app));
    return kExitUsage;
  }
  if (!extras.front().starts_with('-')) return fail(console, unknown_command(commands, app, extras.front()));
  return fail(console, is_program ? option_without_command(app, extras.front()) : check_no_extras(app));
}

/// Runs the innermost command that was named in `words`, the command line.
int run_named(CommandSpan commands, const CLI::App& program, const std::vector<std::string>& words, Console* console) {
  const CLI::App* app = &program;
  Command* named = nullptr;
  while (!app->get_subcommands().empty()) {
    app = app->get_subcommands().front();
    const auto has_name = [&](const auto& command) { return command->name() == app->get_name(); };
    named = std::find_if(commands.begin(), commands.end(), has_name)->get();
    commands = named->subcommands();
  }
  if (Status status = check_nothing_outside(*app, words); !status.ok()) return fail(console, status);
  if (!commands.empty()) return run_without_command(commands, *app, console);
  if (Status status = check_no_extras(*app); !status.ok()) return fail(console, status);
  return named->run(console);
}

/// Of the innermost command that was named; a word behind it that should name one is a mistake all the same.
int help(CommandSpan commands, const CLI::App& app, Console* console) {
  if (!app.get_subcommands().empty()) {
    const CLI::App& named = *app.get_subcommands().front();
    const auto has_name = [&](const auto& command) { return command->name() == named.get_name(); };
    return help((*std::find_if(commands.begin(), commands.end(), has_name))->subcommands(), named, console);
  }
  const std::vector<std::string> extras = app.remaining();
  const bool has_word = !extras.empty() && !extras.front().starts_with('-');
  if (!commands.empty() && has_word) return fail(console, unknown_command(commands, app, extras.front()));
  console->out.write(help_text(app));
  return finish(console);
}

/// `bass help COMMAND` is `bass --help COMMAND`: in front, so that no option takes it for its value.
std::vector<const char*> with_help_as_option(int argc, const char* const* argv) {
  std::vector<const char*> words(argv, argv + argc);
  if (argc > 1 && std::string_view(argv[1]) == "help") words[1] = "--help";
  return words;
}

int parse_and_run(std::span<const char* const> words, Console* console) {
  CLI::App app("BASS: many sequences from one language model at once, by batched speculative decoding");
  const auto commands = make_commands();
  app.name("bass");
  app.footer(std::string(kExamples));
  set_help_format(&app);
  const std::string version_help = "print the version";
  app.add_flag("--version", version_help);
  add_commands(commands, &app);
  try {
    app.parse(static_cast<int>(words.size()), const_cast<char**>(words.data()));  // CLI11 does not write to them
  } catch (const CLI::CallForHelp&) {
    return help(commands, app, console);
  } catch (const CLI::ArgumentMismatch& error) {
    return fail(console, missing_value(error));
  } catch (const CLI::ParseError& error) {
    return fail(console, invalid_argument(error.what()));
  }
  return run_named(commands, app, {words.begin(), words.end()}, console);
}

}  // namespace

int run_bass(int argc, const char* const* argv) {
  std::setlocale(LC_CTYPE, "C.UTF-8");  // for wcwidth: how wide a character is on a terminal
  Console console;
  try {
    return parse_and_run(with_help_as_option(argc, argv), &console);
  } catch (...) {
    const Status status = caught_status("bass");
    console.err.write("error: ");  // in pieces: nothing here may need memory
    console.err.write(status.message());
    console.err.write("\n");
    return kExitFailed;
  }
}

}  // namespace bass
