#include "cli/synth_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <optional>
#include <vector>

#include "base/check.h"
#include "cli/input.h"
#include "text/suggest.h"
#include "text/user_json.h"

namespace bass {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxDim = 1 << 18;
constexpr int kMaxSynthLayers = 1024;
constexpr int kMinVocab = 257;  // the bytes and an end token
constexpr int kMaxVocab = 1 << 22;
constexpr int kMaxContext = 1 << 24;

/// One config file: the getters name file and key in their errors.
class ConfigFile {
 public:
  static Result<ConfigFile> open(const std::string& path) {
    BASS_ASSIGN_OR_RETURN(const std::string text, read_input(path));
    Result<Json> json = parse_user_json(text);
    if (!json.ok())
      return invalid_file(fmt::format("--config {}: is no JSON object: {}", path, json.status().message()));
    if (!json.value().is_object()) return invalid_file(fmt::format("--config {}: is no JSON object", path));
    return ConfigFile(path, std::move(json.value()));
  }

  /// fallback: none where the key must be there.
  Result<int> get_int(const char* key, int low, int high, std::optional<int> fallback = std::nullopt) const {
    if (!has(key)) return fallback.has_value() ? Result<int>(*fallback) : error(key, "is missing");
    const Json& value = json_[key];
    if (!value.is_number_integer() || value < low || value > high) {
      return error(key, fmt::format("is {}, need a whole number from {} to {}", value.dump(), low, high));
    }
    return value.get<int>();
  }
  Result<float> get_positive(const char* key, float fallback) const {
    if (!has(key)) return fallback;
    const Json& value = json_[key];
    constexpr double kMax = 1e12;
    if (!value.is_number() || value <= 0 || value > kMax)
      return error(key, fmt::format("is {}, need a number above 0", value.dump()));
    return value.get<float>();
  }
  Result<bool> get_bool(const char* key, bool fallback) const {
    if (!has(key)) return fallback;
    if (!json_[key].is_boolean()) return error(key, fmt::format("is {}, need true or false", json_[key].dump()));
    return json_[key].get<bool>();
  }

 private:
  ConfigFile(std::string path, Json json) : path_(std::move(path)), json_(std::move(json)) {}

  [[nodiscard]] bool has(const char* key) const { return json_.contains(key) && !json_[key].is_null(); }
  [[nodiscard]] Status error(const char* key, std::string_view what) const {
    return invalid_file(fmt::format("--config {}: \"{}\" {}", path_, key, what));
  }

  std::string path_;
  Json json_;
};

Result<SyntheticModel> read_file(const std::string& path) {
  BASS_ASSIGN_OR_RETURN(const ConfigFile file, ConfigFile::open(path));
  SyntheticModel model;
  ModelConfig& c = model.config;
  c.name = std::filesystem::path(path).stem().string();
  c.architecture = "llama";
  BASS_ASSIGN_OR_RETURN(c.d_model, file.get_int("hidden_size", 1, kMaxDim));
  BASS_ASSIGN_OR_RETURN(c.d_ff, file.get_int("intermediate_size", 1, kMaxDim));
  BASS_ASSIGN_OR_RETURN(c.n_layers, file.get_int("num_hidden_layers", 1, kMaxSynthLayers));
  BASS_ASSIGN_OR_RETURN(c.n_heads, file.get_int("num_attention_heads", 1, kMaxDim));
  BASS_ASSIGN_OR_RETURN(c.n_kv_heads, file.get_int("num_key_value_heads", 1, c.n_heads, c.n_heads));
  BASS_ASSIGN_OR_RETURN(c.head_dim, file.get_int("head_dim", 1, kMaxDim, c.d_model / c.n_heads));
  c.rope_dim = c.head_dim;
  BASS_ASSIGN_OR_RETURN(c.vocab_size, file.get_int("vocab_size", kMinVocab, kMaxVocab));
  BASS_ASSIGN_OR_RETURN(c.context_len, file.get_int("max_position_embeddings", 1, kMaxContext, 2048));
  BASS_ASSIGN_OR_RETURN(c.ropes.front().base, file.get_positive("rope_theta", c.ropes.front().base));
  BASS_ASSIGN_OR_RETURN(c.norm_eps, file.get_positive("rms_norm_eps", c.norm_eps));
  BASS_ASSIGN_OR_RETURN(model.is_head_tied, file.get_bool("tie_word_embeddings", false));
  model.vocab = synthetic_vocab(c.vocab_size);
  return model;
}

bool looks_like_file(const std::string& config) {
  return config.ends_with(".json") || config.find('/') != std::string::npos;
}

}  // namespace

Result<SyntheticModel> read_synth_config(const std::string& config) {
  std::vector<std::string> names;
  for (const SyntheticShape& shape : synthetic_shapes()) {
    if (shape.name == config) return make_synthetic_model(shape);
    names.emplace_back(shape.name);
  }
  if (looks_like_file(config)) return read_file(config);
  const std::string meant = nearest(config, names);
  return invalid_argument(fmt::format("--config '{}': is no shape that BASS knows; {}known: {}, or a PATH.json", config,
                                      meant.empty() ? "" : fmt::format("did you mean {}? ", meant),
                                      fmt::join(names, ", ")));
}

}  // namespace bass
