#include "model/model_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "base/check.h"
#include "model/file_checks.h"
#include "model/gguf_vocab.h"
#include "model/hf_checkpoint.h"
#include "text/hf_vocab.h"

namespace bass {
namespace {

namespace fs = std::filesystem;

Result<GgufFile> open_checked(const std::string& path) {
  BASS_ASSIGN_OR_RETURN(GgufFile file, GgufFile::open(path));
  BASS_RETURN_IF_ERROR(check_texts(file));
  return file;
}

/// A tensor of a GGUF file, as it is.
TensorRecipe recipe_of(const TensorInfo& tensor, const std::string& path) {
  TensorRecipe recipe;
  recipe.name = tensor.name;
  recipe.origin = fmt::format("{}: tensor '{}'", path, tensor.name);
  recipe.shape = tensor.shape;
  recipe.row_len = tensor.shape.front();
  recipe.type = tensor.type;
  recipe.sources = {{tensor.type, recipe.n_rows(), recipe.row_len, tensor.data}};
  return recipe;
}

/// As load_model_file has it, of what is not loaded but written.
Status check_vocab_fits(const ModelSource& source, const std::string& path) {
  const GgufValue* tokens = source.gguf.find("tokenizer.ggml.tokens");
  const auto* array = tokens == nullptr ? nullptr : std::get_if<GgufArray>(tokens);
  const auto embedding = std::ranges::find(source.recipes, "token_embd.weight", &TensorRecipe::name);
  if (array == nullptr || embedding == source.recipes.end()) return ok_status();
  return check_vocab_size(path, static_cast<int64_t>(array->n_elements), embedding->n_rows());
}

/// The type of the largest tensor.
DType main_type(std::span<const TensorRecipe> recipes) {
  DType type = DType::kF32;
  int64_t largest = 0;
  for (const TensorRecipe& recipe : recipes) {
    const int64_t n_elements = recipe.n_rows() * recipe.row_len;
    if (n_elements > largest) type = recipe.type;
    largest = std::max(largest, n_elements);
  }
  return type;
}

/// Metadata that speaks of the file and not of the model is made anew.
bool is_about_file(std::string_view key) {
  return key.starts_with("split.") || key == "general.alignment" || key == "general.file_type" ||
         key == "general.quantization_version";
}

void describe(const ModelSource& source, GgufWriter* writer) {
  for (const auto& [key, value] : source.gguf.metadata()) {
    if (!is_about_file(key)) writer->add_value(key, value);
  }
  writer->add_file_type(main_type(source.recipes));
  for (const TensorRecipe& recipe : source.recipes) writer->add_tensor(recipe.name, recipe.type, recipe.shape);
}

}  // namespace

bool is_checkpoint(const std::string& path) {
  std::error_code error;
  return path.ends_with(".safetensors") || path.ends_with(".safetensors.index.json") || fs::is_directory(path, error);
}

Result<ModelSource> open_model_source(const std::string& path) {
  ModelSource source;
  if (is_checkpoint(path)) {
    BASS_ASSIGN_OR_RETURN(source, open_checkpoint(path, nullptr));
  } else {
    BASS_ASSIGN_OR_RETURN(source.gguf, open_checked(path));
    for (const TensorInfo& tensor : source.gguf.tensors()) source.recipes.push_back(recipe_of(tensor, path));
  }
  BASS_RETURN_IF_ERROR(check_vocab_fits(source, path));
  return source;
}

namespace {

Result<AlignedBuffer> make_bytes(const TensorRecipe& recipe, ThreadTeam* team) {
  AlignedBuffer buffer(recipe.n_bytes());
  if (!buffer.ok())
    return resource_exhausted(fmt::format("{}: no memory for {} MiB", recipe.origin, recipe.n_bytes() >> 20));
  BASS_RETURN_IF_ERROR(make_tensor(recipe, team, buffer.data()));
  return buffer;
}

void release_sources(const TensorRecipe& recipe) {
  for (const SourceMatrix& matrix : recipe.sources) release_pages(matrix.data);
}

}  // namespace

Result<GgufFile> make_gguf(ModelSource source, ThreadTeam* team) {
  std::vector<TensorInfo> tensors;
  std::vector<AlignedBuffer> buffers;
  for (const TensorRecipe& recipe : source.recipes) {
    TensorInfo tensor{recipe.name, recipe.type, recipe.shape, {}};
    if (recipe.is_view()) {
      tensor.data = recipe.sources.front().data;
    } else {
      BASS_ASSIGN_OR_RETURN(AlignedBuffer buffer, make_bytes(recipe, team));
      release_sources(recipe);
      tensor.data = {buffer.data(), recipe.n_bytes()};
      buffers.push_back(std::move(buffer));
    }
    tensors.push_back(std::move(tensor));
  }
  BASS_RETURN_IF_ERROR(source.gguf.check_intact());
  source.gguf.replace_tensors(std::move(tensors), std::move(buffers));
  return std::move(source.gguf);
}

Result<GgufFile> open_model(const std::string& path, std::optional<DType> quantise, int n_threads) {
  if (!is_checkpoint(path) && !quantise.has_value()) return open_checked(path);
  BASS_ASSIGN_OR_RETURN(ModelSource source, open_model_source(path));
  if (quantise.has_value()) quantise_recipes(*quantise, source.recipes);
  ThreadTeam team(threads_or_all(n_threads));
  return make_gguf(std::move(source), &team);
}

int64_t gguf_bytes(const ModelSource& source) {
  GgufWriter writer([](std::span<const std::byte>) { return ok_status(); });
  describe(source, &writer);
  return static_cast<int64_t>(writer.file_bytes());
}

Status write_gguf(const ModelSource& source, ThreadTeam* team, const ByteSink& sink) {
  GgufWriter writer(sink);
  describe(source, &writer);
  BASS_RETURN_IF_ERROR(writer.begin());
  for (const TensorRecipe& recipe : source.recipes) {
    BASS_ASSIGN_OR_RETURN(const AlignedBuffer buffer, make_bytes(recipe, team));
    BASS_RETURN_IF_ERROR(source.gguf.check_intact());
    BASS_RETURN_IF_ERROR(writer.write({buffer.data(), recipe.n_bytes()}));
    release_sources(recipe);
  }
  return writer.finish();
}

Result<VocabData> open_vocab(const std::string& path) {
  if (is_checkpoint(path)) return load_hf_vocab(checkpoint_directory(path));
  BASS_ASSIGN_OR_RETURN(const GgufFile file, open_checked(path));
  return load_vocab(file);
}

}  // namespace bass
