// A subcommand of `bass`, and the list of all of them.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/output.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's
class App;
}

namespace bass {

class Command {
 public:
  virtual ~Command() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual std::string_view summary() const = 0;   ///< one line of `bass --help`
  [[nodiscard]] virtual std::string_view examples() const = 0;  ///< what a person would type, a line each
  virtual void add_options(CLI::App* app) = 0;
  /// Commands of its own: then one of them must be named, and it is run instead.
  [[nodiscard]] virtual std::span<const std::unique_ptr<Command>> subcommands() const { return {}; }
  /// Called after the command line was parsed. The exit code.
  virtual int run(Console* console) = 0;
};

std::unique_ptr<Command> make_generate_command();
std::unique_ptr<Command> make_chat_command();
std::unique_ptr<Command> make_serve_command();
std::unique_ptr<Command> make_batch_command();
std::unique_ptr<Command> make_tokenize_command();
std::unique_ptr<Command> make_detokenize_command();
std::unique_ptr<Command> make_score_command();
std::unique_ptr<Command> make_info_command();
std::unique_ptr<Command> make_convert_command();
std::unique_ptr<Command> make_pull_command();
std::unique_ptr<Command> make_bench_command();
std::unique_ptr<Command> make_synth_command();
std::unique_ptr<Command> make_features_command();
std::unique_ptr<Command> make_options_command();

/// The whole program: parses the command line, runs the command, gives the exit code. Never throws.
int run_bass(int argc, const char* const* argv);

}  // namespace bass
