// Rows of the options table as options of a CLI11 command.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/options.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's
class App;
class Option;
}  // namespace CLI

namespace bass {

/// --max-tokens of the commands that answer conversations, where nobody says.
inline constexpr int kAnswerTokens = 1024;

/// Adds rows to a command and, after parsing, sets them. CLI11 only collects the texts, byte for byte; what they mean
/// is the table's business, so that the command line and a prompts file say the same about the same mistake.
class TableArguments {
 public:
  void add(CLI::App* app, std::initializer_list<std::string_view> names);
  void add_all(CLI::App* app);

  /// What the help says of an added row's default where a command's is not the table's.
  void say_default(std::string_view name, std::string_view text);

  /// Sets what was given, in the table's order, and the draft that comes with the model where the command takes one;
  /// then checks the whole.
  Status apply(GenerateOptions* options) const;

  /// Whether an option was given, be it with its default.
  [[nodiscard]] bool has(std::string_view name) const;

 private:
  void add_row(CLI::App* app, const Option& option);
  [[nodiscard]] bool takes(std::string_view name) const;

  std::vector<std::pair<const Option*, CLI::Option*>> rows_;
};

/// An argument that nothing takes, as an error.
Status unexpected_argument(const CLI::App& app, std::string_view argument);

/// "bass bench decode": what a person types to get to a command.
std::string command_path(const CLI::App& app);

/// The first argument that no option took, as an error with the nearest known one. Ok if there is none.
Status check_no_extras(const CLI::App& app);

/// "-m MODEL: missing ..." when no model was named.
Status check_has_model(const GenerateOptions& options);

}  // namespace bass
