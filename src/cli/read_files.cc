#include "cli/read_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/model_store.h"
#include "cli/save_file.h"
#include "io/gguf.h"
#include "model/hf_checkpoint.h"
#include "model/model_source.h"

namespace bass {
namespace {

namespace fs = std::filesystem;

/// Whether a file in a checkpoint's folder is a part of it, by its name.
bool is_of_checkpoint(const fs::path& path) {
  const std::string name = path.filename().string();
  const auto begins = [&](std::string_view begin) { return name.starts_with(begin); };
  return path.extension() == ".safetensors" || path.extension() == ".model" ||
         name.ends_with(".safetensors.index.json") || name == "config.json" || name == "generation_config.json" ||
         begins("tokenizer") || begins("chat_template") || begins("special_tokens") || begins("added_tokens") ||
         begins("vocab.") || begins("merges.");
}

/// What is no model is told by whoever loads it.
bool is_of_model(const std::string& model, const std::string& path, bool with_folder) {
  const Result<std::string> resolved = resolve_model(model);
  if (!resolved.ok()) return false;
  std::error_code error;
  if (is_checkpoint(resolved.value())) {
    const fs::path folder = fs::path(path).parent_path();
    return (with_folder ? !path.ends_with(".gguf") : is_of_checkpoint(path)) &&
           fs::equivalent(folder.empty() ? "." : folder, checkpoint_directory(resolved.value()), error);
  }
  const Result<GgufFile> file = GgufFile::open(resolved.value());
  if (!file.ok()) return is_same_file(resolved.value(), path);
  return std::ranges::any_of(file.value().file_paths(),
                             [&](const std::string& part) { return is_same_file(part, path); });
}

}  // namespace

Status check_not_read(std::string_view flag, const std::string& path, const ReadFiles& read) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return ok_status();  // a new one, or a device
  for (const std::string& file : read.files) {
    if (file.empty() || !is_same_file(file == "-" ? "/dev/stdin" : file, path)) continue;
    return invalid_argument(fmt::format("{} {}: is read, too, and would be replaced; name another file", flag, path));
  }
  for (const std::string& model : read.models) {
    if (model.empty() || !is_of_model(model, path, read.with_folders)) continue;
    return invalid_argument(fmt::format("{} {}: is a file of the model that is read; name another one", flag, path));
  }
  return ok_status();
}

}  // namespace bass
