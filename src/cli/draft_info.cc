#include "cli/draft_info.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "cli/terminal_text.h"
#include "text/user_json.h"

namespace bass {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kTaskColumns = 16;

Json text_or_null(const GgufFile& file, std::string_view key) {
  const Result<std::string_view> text = file.get_string(key);
  return text.ok() ? Json(std::string(text.value())) : Json(nullptr);
}

/// What is no JSON is told as the text that it is.
Json acceptance_json(const GgufFile& file) {
  Json text = text_or_null(file, "bass-draft.training.acceptance");
  if (text.is_null()) return text;
  const Result<Json> json = parse_user_json(text.get_ref<const std::string&>());
  if (json.ok()) return json.value();
  return text;
}

const Json* find(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found == object.end() ? nullptr : &*found;
}

/// "0.61 0.55 0.50 (2.31)": each drafted token's, and the tokens of a round. "-" where that is not what stands there.
std::string figures(const Json& task, const char* means_key, const char* round_key) {
  const Json* means = find(task, means_key);
  if (means == nullptr || !means->is_array() || means->empty()) return "-";
  std::string text;
  for (const Json& mean : *means) {
    if (!mean.is_number()) return "-";
    text += fmt::format("{}{:.2f}", text.empty() ? "" : " ", mean.get<double>());
  }
  const Json* round = find(task, round_key);
  return round != nullptr && round->is_number() ? fmt::format("{} ({:.2f})", text, round->get<double>()) : text;
}

std::string acceptance_text(const Json& acceptance) {
  if (!acceptance.is_object() || acceptance.empty()) {
    return fmt::format("  acceptance   {}\n", acceptance.is_string()
                                                  ? one_line_for_terminal(acceptance.get_ref<const std::string&>())
                                                  : std::string("not measured"));
  }
  std::string text = "  acceptance of each drafted token (tokens a round)\n";
  text += fmt::format("    {:<{}}  {:<28}  {}\n", "task", kTaskColumns, "temperature 1", "temperature 0");
  for (const auto& [task, values] : acceptance.items()) {
    const std::string name = cut_to_columns(task, kTaskColumns);
    const int n_blanks = std::max(0, kTaskColumns - n_columns_of(name));
    text += fmt::format("    {}{:{}}  {:<28}  {}\n", name, "", n_blanks,
                        figures(values, "temperature_1", "tokens_per_round_1"),
                        figures(values, "temperature_0", "tokens_per_round_0"));
  }
  return text;
}

}  // namespace

Json draft_json(const GgufFile& file) {
  if (text_or_null(file, "general.architecture") != "bass-draft") return nullptr;
  Json json{{"path", file.path()},
            {"main_model", text_or_null(file, "bass-draft.main.name")},
            {"main_fingerprint", text_or_null(file, "bass-draft.main.fingerprint")},
            {"data", text_or_null(file, "bass-draft.training.data")},
            {"loss", text_or_null(file, "bass-draft.training.loss")}};
  const GgufValue* positions = file.find("bass-draft.training.positions");
  const uint64_t* n_positions = positions != nullptr ? std::get_if<uint64_t>(positions) : nullptr;
  json["positions"] = n_positions != nullptr ? Json(*n_positions) : Json(nullptr);
  json["acceptance"] = acceptance_json(file);
  return json;
}

std::string draft_text(const Json& draft) {
  const auto line = [&](std::string_view name, const char* key) {
    const Json* value = find(draft, key);
    if (value == nullptr || value->is_null()) return std::string();
    return fmt::format(
        "  {:<11}  {}\n", name,
        value->is_string() ? one_line_for_terminal(value->get_ref<const std::string&>()) : value->dump());
  };
  return line("made for", "main_model") + line("fingerprint", "main_fingerprint") + line("data", "data") +
         line("loss", "loss") + line("positions", "positions") + acceptance_text(draft["acceptance"]);
}

}  // namespace bass
