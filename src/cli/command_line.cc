#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <clocale>

#include "base/caught_status.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/suggest.h"

#ifndef BASS_VERSION
#define BASS_VERSION "unknown"
#endif

namespace bass {
namespace {

using CommandList = std::vector<std::unique_ptr<Command>>;

CommandList make_commands() {
  CommandList commands;
  commands.push_back(make_generate_command());
  commands.push_back(make_score_command());
  commands.push_back(make_tokenize_command());
  commands.push_back(make_detokenize_command());
  commands.push_back(make_info_command());
  commands.push_back(make_pull_command());
  commands.push_back(make_bench_command());
  commands.push_back(make_synth_command());
  commands.push_back(make_options_command());
  return commands;
}

constexpr std::string_view kExamples =
    "Examples:\n"
    "  bass pull smollm2\n"
    "  bass generate -m smollm2 --chat -p 'Write a Python function that adds two numbers.' -n 8\n"
    "  bass generate --help";

void add_commands(const CommandList& commands, CLI::App* app) {
  app->name("bass");
  app->footer(std::string(kExamples));
  app->set_help_flag("-h,--help", "print this help");
  const std::string version_help = "print the version";
  app->add_flag("--version", version_help);
  app->require_subcommand(0, 1);
  app->allow_extras();
  for (const auto& command : commands) {
    CLI::App* sub = app->add_subcommand(std::string(command->name()), std::string(command->summary()));
    sub->set_help_flag("-h,--help", "print this help");
    sub->footer("Examples:\n" + std::string(command->examples()));
    sub->allow_extras();
    command->add_options(sub);
  }
}

/// CLI11's text, without its marks for negated flags and its double blank lines.
std::string help_text(const CLI::App& app) {
  std::string text = app.help(app.get_parent() == nullptr ? "" : app.get_parent()->get_name());
  constexpr std::string_view kNegation = "{false}";
  for (size_t at = 0; (at = text.find(kNegation, at)) != std::string::npos;) {
    text.replace(at, kNegation.size(), kNegation.size(), ' ');
  }
  for (size_t at = 0; (at = text.find("\n\n\n", at)) != std::string::npos;) text.erase(at, 1);
  return text;
}

Status unknown_command(const CommandList& commands, const std::string& word) {
  std::vector<std::string> names;
  for (const auto& command : commands) names.emplace_back(command->name());
  const std::string suggestion = nearest(word, names);
  return invalid_argument(fmt::format(
      "unknown command '{}'; {}", word,
      suggestion.empty() ? "`bass --help` lists the commands" : fmt::format("did you mean `bass {}`?", suggestion)));
}

/// An option of `generate`, typed straight after "bass", is taken for what it most likely is: a forgotten command.
Status option_without_command(const CLI::App& app, const std::string& option) {
  const std::string name = option.substr(0, option.find('='));
  if (app.get_subcommand("generate")->get_option_no_throw(name) == nullptr) return check_no_extras(app);
  return invalid_argument(fmt::format("{}: there is no command; did you mean `bass generate {} ...`?", name, option));
}

/// `bass -m MODEL generate`: the program itself would take the option and the command miss it.
Status check_nothing_before(const CLI::App& command, const CLI::App& app) {
  const std::vector<std::string> extras = app.remaining();
  if (extras.empty()) return ok_status();
  return invalid_argument(fmt::format("{}: stands before the command; type `bass {} {} ...`", extras.front(),
                                      command.get_name(), extras.front()));
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

/// The command line as typed names no command.
int run_without_command(const CommandList& commands, const CLI::App& app, Console* console) {
  if (app.get_option("--version")->count() > 0) {
    console->out.write(fmt::format("bass {}\n", BASS_VERSION));
    return finish(console);
  }
  const std::vector<std::string> extras = app.remaining();
  if (extras.empty()) {
    console->err.write(help_text(app));
    return kExitUsage;
  }
  if (extras.front().starts_with('-')) return fail(console, option_without_command(app, extras.front()));
  return fail(console, unknown_command(commands, extras.front()));
}

int parse_and_run(int argc, const char* const* argv, Console* console) {
  CLI::App app("BASS: many sequences from one language model at once, by batched speculative decoding");
  const CommandList commands = make_commands();
  add_commands(commands, &app);
  try {
    app.parse(argc, const_cast<char**>(argv));  // CLI11 does not write to it
  } catch (const CLI::CallForHelp&) {
    const auto subcommands = app.get_subcommands();
    console->out.write(help_text(subcommands.empty() ? app : *subcommands.front()));
    return finish(console);
  } catch (const CLI::ArgumentMismatch& error) {
    return fail(console, missing_value(error));
  } catch (const CLI::ParseError& error) {
    return fail(console, invalid_argument(error.what()));
  }
  const auto subcommands = app.get_subcommands();
  if (subcommands.empty()) return run_without_command(commands, app, console);
  if (Status status = check_nothing_before(*subcommands.front(), app); !status.ok()) return fail(console, status);
  if (Status status = check_no_extras(*subcommands.front()); !status.ok()) return fail(console, status);
  for (const auto& command : commands) {
    if (command->name() == subcommands.front()->get_name()) return command->run(console);
  }
  return kExitFailed;
}

}  // namespace

int run_bass(int argc, const char* const* argv) {
  std::setlocale(LC_CTYPE, "C.UTF-8");  // for wcwidth: how wide a character is on a terminal
  Console console;
  try {
    return parse_and_run(argc, argv, &console);
  } catch (...) {
    const Status status = caught_status("bass");
    console.err.write("error: ");  // in pieces: nothing here may need memory
    console.err.write(status.message());
    console.err.write("\n");
    return kExitFailed;
  }
}

}  // namespace bass
