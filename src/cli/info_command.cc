#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/draft_info.h"
#include "cli/model_store.h"
#include "cli/shipped_draft.h"
#include "cli/terminal_text.h"
#include "model/architecture.h"
#include "model/decoder_weights.h"
#include "model/fingerprint.h"
#include "model/model_source.h"
#include "text/user_json.h"

namespace bass {
namespace {

using Json = nlohmann::ordered_json;

struct TypeTotal {
  int64_t n_tensors = 0;
  int64_t n_elements = 0;
  int64_t n_bytes = 0;
};

/// Arrays (a vocabulary, for the most part) are told by their length.
Json value_json(const GgufValue& value) {
  struct Visitor {
    Json operator()(const GgufArray& array) const { return {{"array_len", array.n_elements}}; }
    Json operator()(std::string_view text) const { return std::string(text); }
    Json operator()(uint64_t number) const { return number; }
    Json operator()(int64_t number) const { return number; }
    Json operator()(double number) const { return number; }
    Json operator()(bool flag) const { return flag; }
  };
  return std::visit(Visitor{}, value);
}

/// None of what is no model: a vocabulary, a draft, an architecture that BASS does not know.
std::optional<std::string> fingerprint_of(const GgufFile& file) {
  const Result<const Architecture*> architecture = find_architecture(file);
  if (!architecture.ok()) return std::nullopt;
  const Result<ModelConfig> config = architecture.value()->read_config(file);
  if (!config.ok() || config.value().main) return std::nullopt;
  const Result<WeightRefs> weights = find_decoder_weights(file, config.value());
  if (!weights.ok()) return std::nullopt;
  return model_fingerprint(config.value(), weights.value());
}

Json file_json(const GgufFile& file) {
  std::map<std::string_view, TypeTotal> totals;
  TypeTotal all;
  for (const TensorInfo& tensor : file.tensors()) {
    int64_t n_elements = 1;
    for (const int64_t size : tensor.shape) n_elements *= size;
    for (TypeTotal* total : {&totals[dtype_info(tensor.type).name], &all}) {
      ++total->n_tensors;
      total->n_elements += n_elements;
      total->n_bytes += static_cast<int64_t>(tensor.data.size());
    }
  }
  Json json{{"path", file.path()},        {"gguf_version", file.version()}, {"file_bytes", file.file_bytes()},
            {"n_params", all.n_elements}, {"n_tensors", all.n_tensors},     {"tensor_bytes", all.n_bytes}};
  json["tensor_types"] = Json::object();
  for (const auto& [name, total] : totals) {
    json["tensor_types"][std::string(name)] = {
        {"n_tensors", total.n_tensors}, {"n_params", total.n_elements}, {"bytes", total.n_bytes}};
  }
  if (const std::optional<std::string> fingerprint = fingerprint_of(file)) json["fingerprint"] = *fingerprint;
  json["metadata"] = Json::object();
  for (const auto& [key, value] : file.metadata()) json["metadata"][std::string(key)] = value_json(value);
  return json;
}

/// Of the draft that comes with a model, which "problem" keeps from being used where there is one; null: no such file.
Json shipped_draft_json(const std::string& model, const Json& fingerprint) {
  const std::optional<std::string> path = find_shipped_draft(model);
  if (!path.has_value()) return nullptr;
  const Result<GgufFile> file = GgufFile::open(*path);
  if (!file.ok()) return {{"path", *path}, {"problem", file.status().message()}};
  Json json = draft_json(file.value());
  if (json.is_null()) return {{"path", *path}, {"problem", fmt::format("{}: is no draft", *path)}};
  if (json["main_fingerprint"] != fingerprint) json["problem"] = fmt::format("{}: was made for another model", *path);
  return json;
}

/// Long values, such as a chat template, are cut to a line.
std::string value_text(const Json& value) {
  constexpr int kMaxColumns = 72;
  if (value.is_object()) return fmt::format("array of {}", value["array_len"].get<uint64_t>());
  const std::string text = value.is_string() ? value.get<std::string>() : json_text(value);
  const std::string cut = cut_to_columns(text, kMaxColumns);
  return n_columns_of(text) > kMaxColumns ? cut + "..." : cut;
}

/// Of a draft itself, or of the draft that a model comes with.
std::string draft_lines(const Json& draft, const std::string& file_path) {
  if (draft.is_null()) {
    return "draft       none: the file that comes with this model was not found (BASS_MODELS names its folder)\n";
  }
  if (draft.contains("problem")) {
    return fmt::format("draft       not used: {}\n",
                       one_line_for_terminal(draft["problem"].get_ref<const std::string&>()));
  }
  const std::string path = draft["path"].get<std::string>();
  return fmt::format("draft{}\n{}", path == file_path ? "" : "       " + for_terminal(path), draft_text(draft));
}

std::string file_text(const Json& json) {
  constexpr double kMib = 1024.0 * 1024.0;
  std::string text = fmt::format(
      "file        {}\nformat      GGUF v{}, {:.1f} MiB\nparameters  {:.1f} M in {} tensors\n",
      for_terminal(json["path"].get<std::string>()), json["gguf_version"].get<int>(),
      json["file_bytes"].get<double>() / kMib, json["n_params"].get<double>() / 1e6, json["n_tensors"].get<int64_t>());
  for (const auto& [name, total] : json["tensor_types"].items()) {
    text += fmt::format("  {:<8}  {:>5} tensors  {:>9.2f} M parameters  {:>8.2f} MiB\n", name,
                        total["n_tensors"].get<int64_t>(), total["n_params"].get<double>() / 1e6,
                        total["bytes"].get<double>() / kMib);
  }
  if (json.contains("fingerprint")) text += fmt::format("fingerprint {}\n", json["fingerprint"].get<std::string>());
  if (json.contains("draft")) text += draft_lines(json["draft"], json["path"].get_ref<const std::string&>());
  text += "metadata\n";
  for (const auto& [key, value] : json["metadata"].items()) {
    text += fmt::format("  {} = {}\n", for_terminal(key), value_text(value));
  }
  return text;
}

class InfoCommand final : public Command {
 public:
  [[nodiscard]] std::string_view name() const override { return "info"; }
  [[nodiscard]] std::string_view summary() const override { return "what a model file holds"; }
  [[nodiscard]] std::string_view examples() const override {
    return "  bass info -m smollm2\n"
           "  bass info -m model.gguf --json";
  }
  void add_options(CLI::App* app) override { arguments_.add(app, {"model", "json"}); }
  int run(Console* console) override {
    const Result<Json> json = read();
    if (!json.ok()) return fail(console, json.status());
    return finish(console, options_.json ? json_line(json.value()) : file_text(json.value()));
  }

 private:
  Result<Json> read() {
    BASS_RETURN_IF_ERROR(arguments_.apply(&options_));
    BASS_RETURN_IF_ERROR(check_has_model(options_));
    BASS_ASSIGN_OR_RETURN(const std::string path, resolve_model(options_.engine.model_path));
    BASS_ASSIGN_OR_RETURN(const GgufFile file, open_model(path, std::nullopt, options_.engine.n_threads));
    Json json = file_json(file);
    const std::string& model = options_.engine.model_path;
    if (const Json draft = draft_json(file); !draft.is_null()) json["draft"] = draft;
    if (find_meant_model(model) != nullptr) {
      json["draft"] = shipped_draft_json(model, json.value("fingerprint", Json(nullptr)));
    }
    return json;
  }

  TableArguments arguments_;
  GenerateOptions options_;
};

}  // namespace

std::unique_ptr<Command> make_info_command() { return std::make_unique<InfoCommand>(); }

}  // namespace bass
