#include "model/hf_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <span>

#include "base/check.h"
#include "io/safetensors.h"
#include "model/architecture.h"
#include "model/decoder_weights.h"
#include "model/gguf_vocab.h"
#include "model/hf_import.h"
#include "model/model_source.h"
#include "text/hf_vocab.h"

namespace bass {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxConfigBytes = size_t{4} << 20;

using HfConfig = std::map<std::string, JsonLeaf>;

/// config.json, nested keys joined by dots.
Result<HfConfig> read_config_json(const std::string& path) {
  BASS_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
  if (file.bytes().size() > kMaxConfigBytes) {
    return invalid_file(fmt::format("{}: has {} bytes, more than a configuration can need (at byte {})", path,
                                    file.bytes().size(), kMaxConfigBytes));
  }
  HfConfig config;
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  BASS_RETURN_IF_ERROR(read_json_leaves(text, {path, 0}, [&](std::span<const JsonStep> keys, const JsonLeaf& leaf) {
    config.emplace(joined_json_path(keys), leaf);
    return ok_status();
  }));
  BASS_RETURN_IF_ERROR(file.check_intact());
  return config;
}

Result<std::string> text_of(const HfConfig& config, const std::string& path, const std::string& key) {
  const auto found = config.find(key);
  if (found == config.end()) return invalid_file(fmt::format("{}: an entry is missing (key '{}')", path, key));
  if (const auto* text = std::get_if<std::string>(&found->second)) return *text;
  return invalid_file(fmt::format("{}: need a string, not {} (key '{}')", path, json_kind(found->second), key));
}

/// Weights that another program quantised are no numbers.
Status refuse_quantised(const HfConfig& config, const std::string& path) {
  if (config.lower_bound("quantization_config.") == config.end() ||
      !config.lower_bound("quantization_config.")->first.starts_with("quantization_config.")) {
    return ok_status();
  }
  return invalid_file(
      fmt::format("{}: the weights are quantised in a way that BASS does not read; take the unquantised "
                  "checkpoint and --quantize (key 'quantization_config')",
                  path));
}

/// Whether the architecture finds all that it needs, in the shapes that config.json asks for: known before anything is
/// made of the tensors, which may take much time and memory. Numbers are not looked at.
Status check_shapes(const Architecture& architecture, std::span<const TensorRecipe> recipes, GgufFile* gguf) {
  constexpr int64_t kMaxVectorLen = 1 << 22;
  int64_t longest = 0;
  for (const TensorRecipe& recipe : recipes) {
    if (recipe.shape.size() == 1) longest = std::max(longest, recipe.shape.front());
    if (longest > kMaxVectorLen) return invalid_file(fmt::format("{} is impossibly long", recipe.origin));
  }
  const std::vector<float> ones(static_cast<size_t>(longest), 1.0F);
  std::vector<TensorInfo> tensors;
  for (const TensorRecipe& recipe : recipes) {
    TensorInfo tensor{recipe.name, recipe.type, recipe.shape, {}};
    if (recipe.shape.size() == 1) {
      tensor.type = DType::kF32;
      tensor.data = std::as_bytes(std::span(ones).first(static_cast<size_t>(recipe.shape.front())));
    }
    tensors.push_back(std::move(tensor));
  }
  gguf->replace_tensors(std::move(tensors), {});
  BASS_ASSIGN_OR_RETURN(const ModelConfig config, architecture.read_config(*gguf));
  BASS_RETURN_IF_ERROR(find_decoder_weights(*gguf, config).status());
  gguf->replace_tensors({}, {});
  return ok_status();
}

}  // namespace

std::string checkpoint_directory(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return path;
  const std::string parent = fs::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

Result<ModelSource> open_checkpoint(const std::string& path, const VocabData* vocab) {
  BASS_ASSIGN_OR_RETURN(SafetensorsCheckpoint checkpoint, SafetensorsCheckpoint::open(path));
  const std::string directory = checkpoint_directory(path);
  const std::string config_path = directory + "/config.json";
  BASS_ASSIGN_OR_RETURN(const HfConfig config, read_config_json(config_path));
  BASS_RETURN_IF_ERROR(refuse_quantised(config, config_path));
  BASS_ASSIGN_OR_RETURN(const std::string model_type, text_of(config, config_path, "model_type"));
  BASS_ASSIGN_OR_RETURN(const Architecture* architecture, find_architecture_of_checkpoint(model_type, config_path));
  HfImport import(std::string(architecture->name), config_path, &config, &checkpoint);
  import.writer().add_string("general.name", fs::canonical(directory).filename().string());
  architecture->hf.import(&import);
  BASS_RETURN_IF_ERROR(import.finish());
  ModelSource source;
  source.recipes = import.take_recipes();
  if (vocab != nullptr) {
    add_vocab(*vocab, &import.writer());
  } else {
    BASS_ASSIGN_OR_RETURN(VocabData own, load_hf_vocab(directory));
    const auto embedding = std::ranges::find(source.recipes, "token_embd.weight", &TensorRecipe::name);
    if (embedding != source.recipes.end()) drop_added_tokens(static_cast<size_t>(embedding->n_rows()), own);
    add_vocab(own, &import.writer());
  }
  BASS_ASSIGN_OR_RETURN(source.gguf, GgufFile::assemble(path, import.take_metadata(), checkpoint.take_files()));
  BASS_RETURN_IF_ERROR(check_shapes(*architecture, source.recipes, &source.gguf));
  return source;
}

}  // namespace bass
