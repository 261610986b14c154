#include "cli/help_text.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <string_view>

#include "cli/arguments.h"

namespace bass {
namespace {

constexpr size_t kMaxColumns = 100;

/// Lines of at most so many columns, broken at blanks. Help is ASCII.
std::string wrapped(std::string text, size_t n_columns) {
  size_t begin = 0;
  while (text.size() - begin > n_columns) {
    size_t blank = text.rfind(' ', begin + n_columns);
    if (blank == text.npos || blank <= begin) blank = text.find(' ', begin);  // a word longer than a line
    if (blank == text.npos) break;
    text[blank] = '\n';
    begin = blank + 1;
  }
  return text;
}

class HelpFormatter final : public CLI::Formatter {
 public:
  /// CLI11 puts all lines of a description into its second column.
  std::string make_option_desc(const CLI::Option* option) const override {
    return wrapped(option->get_description(), kMaxColumns - column_width_);
  }
};

}  // namespace

void set_help_format(CLI::App* app) { app->formatter(std::make_shared<HelpFormatter>()); }

/// CLI11's text, without its marks for negated flags and its double blank lines.
std::string help_text(const CLI::App& app) {
  std::string text = app.help(app.get_parent() == nullptr ? "" : command_path(*app.get_parent()));
  constexpr std::string_view kNegation = "{false}";
  for (size_t at = 0; (at = text.find(kNegation, at)) != std::string::npos;) {
    text.replace(at, kNegation.size(), kNegation.size(), ' ');
  }
  for (size_t at = 0; (at = text.find("\n\n\n", at)) != std::string::npos;) text.erase(at, 1);
  return text;
}

}  // namespace bass
