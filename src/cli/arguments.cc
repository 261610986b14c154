#include "cli/arguments.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/check.h"
#include "cli/shipped_draft.h"
#include "text/suggest.h"

namespace bass {
namespace {

std::string cli_names(const Option& option) {
  const std::string flag = option_flag(option);
  if (option.name.size() == 1) return fmt::format("{},--{}", flag, option.name);
  return option.short_name == 0 ? flag : fmt::format("-{},{}", option.short_name, flag);
}

std::string help_text(const Option& option, std::string_view value) {
  return fmt::format("{} [{}]", option.help, value);
}

std::string help_text(const Option& option) {
  const bool is_off_flag = option_kind(option) == OptionKind::kFlag && option_default(option) == "off";
  const bool says_nothing = option.unset == "none" || option.unset == "required" || is_off_flag;
  return says_nothing ? std::string(option.help) : help_text(option, option_default(option));
}

std::string help_hint(const CLI::App& app) { return fmt::format("`{} --help` lists what there is", command_path(app)); }

}  // namespace

void TableArguments::add(CLI::App* app, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    const Option* option = find_option(name);
    BASS_CHECK(option != nullptr);
    add_row(app, *option);
  }
}

void TableArguments::add_all(CLI::App* app) {
  for (const Option& option : options_table()) add_row(app, option);
}

void TableArguments::add_row(CLI::App* app, const Option& option) {
  const std::string help = help_text(option);
  CLI::Option* row = nullptr;
  if (option_kind(option) == OptionKind::kFlag) {
    const std::string negation = option.name == "chat" ? ",!--no-chat" : "";
    row = app->add_flag(cli_names(option) + negation, help);
  } else {
    const auto take = [](const CLI::results_t&) { return true; };
    row = app->add_option(cli_names(option), take, help);
    row->type_name(std::string(option.value_name))->type_size(1)->expected(1)->allow_extra_args(false);
    row->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }
  row->group(std::string(group_title(option.group)));
  rows_.emplace_back(&option, row);
}

void TableArguments::say_default(std::string_view name, std::string_view text) {
  for (const auto& [option, row] : rows_) {
    if (option->name == name) row->description(help_text(*option, text));
  }
}

Status TableArguments::apply(GenerateOptions* options) const {
  for (const auto& [option, row] : rows_) {
    if (row->count() == 0) continue;
    BASS_RETURN_IF_ERROR(set_option(*option, row->results(), options));
  }
  if (takes("draft")) use_shipped_draft(options);
  return check_options(*options);
}

bool TableArguments::has(std::string_view name) const {
  return std::ranges::any_of(rows_,
                             [&](const auto& row) { return row.first->name == name && row.second->count() > 0; });
}

bool TableArguments::takes(std::string_view name) const {
  return std::ranges::any_of(rows_, [&](const auto& row) { return row.first->name == name; });
}

std::string command_path(const CLI::App& app) {
  return app.get_parent() == nullptr ? app.get_name() : command_path(*app.get_parent()) + " " + app.get_name();
}

Status unexpected_argument(const CLI::App& app, std::string_view argument) {
  return invalid_argument(fmt::format("unexpected argument '{}'; {}", argument, help_hint(app)));
}

Status check_no_extras(const CLI::App& app) {
  std::vector<std::string> extras = app.remaining();
  std::erase(extras, "--");  // CLI11 keeps it where it obeys it
  if (extras.empty()) return ok_status();
  const std::string word = extras.front().substr(0, extras.front().find('='));
  if (!word.starts_with('-') || word.size() < 2) return unexpected_argument(app, extras.front());
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    for (const std::string& name : option->get_snames()) known.push_back("-" + name);
  }
  const std::string suggestion = nearest(word, known);
  return invalid_argument(
      fmt::format("unknown option {}; {}", word,
                  suggestion.empty() ? help_hint(app) : fmt::format("did you mean {}?", suggestion)));
}

Status check_has_model(const GenerateOptions& options) {
  if (!options.engine.model_path.empty()) return ok_status();
  return invalid_argument("-m: missing; give a model, for example -m smollm2 after `bass pull smollm2`");
}

}  // namespace bass
