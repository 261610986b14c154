#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <clocale>
#include <exception>

#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/interrupt.h"
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
  if (extras.front().starts_with('-')) return fail(console, check_no_extras(app));
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
  } catch (const CLI::ParseError& error) {
    return fail(console, invalid_argument(error.what()));
  }
  const auto subcommands = app.get_subcommands();
  if (subcommands.empty()) return run_without_command(commands, app, console);
  if (Status status = check_no_extras(*subcommands.front()); !status.ok()) return fail(console, status);
  for (const auto& command : commands) {
    if (command->name() == subcommands.front()->get_name()) return command->run(console);
  }
  return kExitFailed;
}

}  // namespace

int run_bass(int argc, const char* const* argv) {
  std::setlocale(LC_CTYPE, "C.UTF-8");  // for wcwidth: how wide a character is on a terminal
  install_signal_handlers();
  Console console;
  try {
    return parse_and_run(argc, argv, &console);
  } catch (const std::bad_alloc&) {
    return fail(&console, resource_exhausted("out of memory"));
  } catch (const std::exception& error) {
    return fail(&console, internal_error(fmt::format("unexpected: {}", error.what())));
  }
}

}  // namespace bass
