// The files of a checkpoint: one, or those that an index names.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "base/check.h"
#include "io/gguf_format.h"
#include "io/json_leaves.h"
#include "io/safetensors.h"

namespace bass {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxIndexBytes = uint64_t{64} << 20;
constexpr std::string_view kSingleName = "model.safetensors";
constexpr std::string_view kIndexName = "model.safetensors.index.json";

/// Which file each tensor is in, as the index has it.
using WeightMap = std::vector<std::pair<std::string, std::string>>;

/// A name that stays in the index's directory.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find_first_of(std::string_view("/\0", 2)) == name.npos;
}

Result<WeightMap> read_index(const std::string& path) {
  BASS_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
  if (file.bytes().size() > kMaxIndexBytes) {
    return invalid_file(fmt::format("{}: has {} bytes, more than an index of tensors can need (at byte {})", path,
                                    file.bytes().size(), kMaxIndexBytes));
  }
  WeightMap map;
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  const Status status = read_json_leaves(text, {path, 0}, [&](std::span<const JsonStep> keys, const JsonLeaf& leaf) {
    if (keys.front().key != "weight_map") return ok_status();  // "metadata": what nobody needs
    const auto* shard = std::get_if<std::string>(&leaf);
    if (keys.size() != 2 || shard == nullptr) {
      return invalid_file(fmt::format("{}: need a file's name, not {} (key {})", path, json_kind(leaf),
                                      gguf_format::in_quotes(joined_json_path(keys))));
    }
    if (!is_plain_name(*shard)) {
      return invalid_file(fmt::format("{}: {} is no name of a file beside the index (key {})", path,
                                      gguf_format::in_quotes(*shard), gguf_format::in_quotes(joined_json_path(keys))));
    }
    map.emplace_back(keys[1].key, *shard);
    return ok_status();
  });
  BASS_RETURN_IF_ERROR(file.check_intact());
  if (!status.ok()) return status;
  if (map.empty()) return invalid_file(fmt::format("{}: names no tensor (key 'weight_map')", path));
  return map;
}

/// The directory's first file of pickled weights; empty if there is none.
std::string find_pickle(const std::string& directory) {
  std::string first;
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (is_pickle(name) && (first.empty() || name < first)) first = name;
  }
  return first;
}

}  // namespace

bool is_pickle(std::string_view name) {
  constexpr std::string_view kEndings[] = {".bin", ".pt", ".pth", ".ckpt"};
  return std::ranges::any_of(kEndings, [&](std::string_view ending) { return name.ends_with(ending); });
}

std::string pickle_mend(std::string_view from) {
  return fmt::format(
      "a Python program's pickle, which can run any code when it is read, so BASS does not read it; write it as "
      "safetensors with transformers: AutoModelForCausalLM.from_pretrained('{}').save_pretrained('DIRECTORY'), and "
      "the same with AutoTokenizer",
      from);
}

Result<SafetensorsCheckpoint> SafetensorsCheckpoint::open(const std::string& path) {
  SafetensorsCheckpoint checkpoint;
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    BASS_RETURN_IF_ERROR(path.ends_with(".json") ? checkpoint.add_indexed(path) : checkpoint.add_file(path));
    return checkpoint;
  }
  const std::string index = fmt::format("{}/{}", path, kIndexName);
  const std::string single = fmt::format("{}/{}", path, kSingleName);
  if (fs::exists(index, error)) {
    BASS_RETURN_IF_ERROR(checkpoint.add_indexed(index));
  } else if (fs::exists(single, error)) {
    BASS_RETURN_IF_ERROR(checkpoint.add_file(single));
  } else {
    const std::string pickle = find_pickle(path);
    if (!pickle.empty()) {
      return invalid_file(fmt::format("{}: has no {}, only {}: {}", path, kSingleName, pickle, pickle_mend(path)));
    }
    return invalid_file(fmt::format("{}: is a directory without {} or {}: no model of Hugging Face's layout", path,
                                    kSingleName, kIndexName));
  }
  return checkpoint;
}

Status SafetensorsCheckpoint::add_file(const std::string& path) {
  BASS_ASSIGN_OR_RETURN(MappedFile file, MappedFile::open(path));
  Result<std::vector<SafetensorsTensor>> tensors = parse_safetensors(file.bytes(), path);
  BASS_RETURN_IF_ERROR(file.check_intact());
  if (!tensors.ok()) return tensors.status();
  for (SafetensorsTensor& tensor : tensors.value()) {
    const auto [found, is_new] = tensor_idx_.emplace(tensor.name, tensors_.size());
    if (!is_new) {
      return invalid_file(fmt::format("{}: the tensor is in {} too (key {})", path, path_of(tensors_[found->second]),
                                      gguf_format::in_quotes(tensor.name)));
    }
    tensor.file_idx = static_cast<uint32_t>(files_.size());
    tensors_.push_back(std::move(tensor));
  }
  files_.push_back(std::move(file));
  return ok_status();
}

Status SafetensorsCheckpoint::add_indexed(const std::string& index_path) {
  BASS_ASSIGN_OR_RETURN(const WeightMap map, read_index(index_path));
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : map) shards.insert(shard);
  const fs::path directory = fs::path(index_path).parent_path();
  for (const std::string& shard : shards) BASS_RETURN_IF_ERROR(add_file((directory / shard).string()));
  for (const auto& [name, shard] : map) {
    const SafetensorsTensor* tensor = find(name);
    if (tensor != nullptr && fs::path(path_of(*tensor)).filename() == shard) continue;
    return invalid_file(fmt::format("{}: {} does not hold the tensor (key 'weight_map.{}')", index_path, shard, name));
  }
  return ok_status();
}

const SafetensorsTensor* SafetensorsCheckpoint::find(std::string_view name) const {
  const auto found = tensor_idx_.find(std::string(name));
  return found == tensor_idx_.end() ? nullptr : &tensors_[found->second];
}

}  // namespace bass
