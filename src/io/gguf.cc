#include "io/gguf.h"

#include <fmt/format.h>

#include <limits>
#include <optional>

#include "base/check.h"
#include "io/gguf_format.h"
#include "io/gguf_split.h"

namespace bass {
namespace {

using gguf_format::in_quotes;
using gguf_format::load;

std::string kind_of(const GgufValue& value) {
  if (std::holds_alternative<uint64_t>(value) || std::holds_alternative<int64_t>(value)) return "an integer";
  if (std::holds_alternative<double>(value)) return "a floating-point number";
  if (std::holds_alternative<bool>(value)) return "a boolean";
  if (std::holds_alternative<std::string_view>(value)) return "a string";
  const auto& array = std::get<GgufArray>(value);
  return fmt::format("an array of {} {} values", array.n_elements, gguf_format::type_name(array.element_type));
}

/// The value as a signed integer, if it is an integer or a boolean that fits.
std::optional<int64_t> to_i64(const GgufValue& value) {
  if (const auto* number = std::get_if<int64_t>(&value)) return *number;
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? 1 : 0;
  const auto* number = std::get_if<uint64_t>(&value);
  if (number == nullptr || *number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
  return static_cast<int64_t>(*number);
}

}  // namespace

Result<GgufFile> GgufFile::open(const std::string& path) {
  GgufFile file;
  file.path_ = path;
  BASS_ASSIGN_OR_RETURN(OpenedGguf opened, open_gguf(path));
  BASS_ASSIGN_OR_RETURN(const SplitFacts facts, read_split_facts(opened, path));
  if (facts.n_shards <= 1) {
    file.files_.push_back(std::move(opened.mapping));
    file.contents_ = std::move(opened.contents);
  } else {
    BASS_RETURN_IF_ERROR(open_shards(path, facts, &file.files_, &file.contents_));
  }
  file.build_index();
  return file;
}

Result<GgufFile> GgufFile::assemble(const std::string& path, std::string metadata, std::vector<MappedFile> files) {
  GgufFile file;
  file.path_ = path;
  file.metadata_ = std::move(metadata);
  const auto* bytes = reinterpret_cast<const std::byte*>(file.metadata_.data());
  BASS_ASSIGN_OR_RETURN(file.contents_, parse_gguf({bytes, file.metadata_.size()}, path));
  file.files_ = std::move(files);
  file.build_index();
  return file;
}

void GgufFile::replace_tensors(std::vector<TensorInfo> tensors, std::vector<AlignedBuffer> buffers) {
  contents_.tensors = std::move(tensors);
  buffers_ = std::move(buffers);
  build_index();
}

void GgufFile::build_index() {
  metadata_idx_.clear();
  tensor_idx_.clear();
  for (size_t i = 0; i < contents_.metadata.size(); ++i) metadata_idx_.emplace(contents_.metadata[i].first, i);
  for (size_t i = 0; i < contents_.tensors.size(); ++i) tensor_idx_.emplace(contents_.tensors[i].name, i);
}

int64_t GgufFile::buffer_bytes() const {
  size_t n_bytes = 0;
  for (const AlignedBuffer& buffer : buffers_) n_bytes += buffer.size_bytes();
  return static_cast<int64_t>(n_bytes);
}

int64_t GgufFile::file_bytes() const {
  size_t n_bytes = 0;
  for (const MappedFile& file : files_) n_bytes += file.bytes().size();
  return static_cast<int64_t>(n_bytes);
}

std::vector<std::string> GgufFile::file_paths() const {
  std::vector<std::string> paths;
  for (const MappedFile& file : files_) paths.push_back(file.path());
  return paths;
}

Status GgufFile::check_intact() const {
  for (const MappedFile& file : files_) BASS_RETURN_IF_ERROR(file.check_intact());
  return ok_status();
}

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto found = metadata_idx_.find(key);
  return found == metadata_idx_.end() ? nullptr : &contents_.metadata[found->second].second;
}

const TensorInfo* GgufFile::find_tensor(std::string_view name) const {
  const auto found = tensor_idx_.find(name);
  return found == tensor_idx_.end() ? nullptr : &contents_.tensors[found->second];
}

Status GgufFile::missing(std::string_view key) const {
  return invalid_file(fmt::format("{}: a metadata entry is missing (key {})", path(), in_quotes(key)));
}

Status GgufFile::wrong_kind(std::string_view key, std::string_view needed) const {
  return invalid_file(
      fmt::format("{}: a metadata entry is {}, need {} (key {})", path(), kind_of(*find(key)), needed, in_quotes(key)));
}

Result<uint32_t> GgufFile::get_u32(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return missing(key);
  if (std::holds_alternative<bool>(*value)) return wrong_kind(key, "an integer");
  if (const auto* number = std::get_if<uint64_t>(value)) {
    if (*number <= std::numeric_limits<uint32_t>::max()) return static_cast<uint32_t>(*number);
    return invalid_file(
        fmt::format("{}: {} is out of range, need 0 to 4294967295 (key {})", path(), *number, in_quotes(key)));
  }
  if (const auto* number = std::get_if<int64_t>(value)) {
    if (*number >= 0 && *number <= std::numeric_limits<uint32_t>::max()) return static_cast<uint32_t>(*number);
    return invalid_file(
        fmt::format("{}: {} is out of range, need 0 to 4294967295 (key {})", path(), *number, in_quotes(key)));
  }
  return wrong_kind(key, "an integer");
}

Result<uint32_t> GgufFile::get_u32_or(std::string_view key, uint32_t fallback) const {
  return has(key) ? get_u32(key) : fallback;
}

Result<float> GgufFile::get_f32(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return missing(key);
  if (const auto* number = std::get_if<double>(value)) return static_cast<float>(*number);
  return wrong_kind(key, "a floating-point number");
}

Result<float> GgufFile::get_f32_or(std::string_view key, float fallback) const {
  return has(key) ? get_f32(key) : fallback;
}

Result<bool> GgufFile::get_bool_or(std::string_view key, bool fallback) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return fallback;
  if (const auto* flag = std::get_if<bool>(value)) return *flag;
  return wrong_kind(key, "a boolean");
}

Result<std::string_view> GgufFile::get_string(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return missing(key);
  if (const auto* text = std::get_if<std::string_view>(value)) return *text;
  return wrong_kind(key, "a string");
}

Result<std::string_view> GgufFile::get_string_or(std::string_view key, std::string_view fallback) const {
  return has(key) ? get_string(key) : fallback;
}

Result<const GgufArray*> GgufFile::get_array(std::string_view key, std::string_view needed) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return missing(key);
  const auto* array = std::get_if<GgufArray>(value);
  if (array == nullptr) return wrong_kind(key, needed);
  return array;
}

Result<std::vector<std::string_view>> GgufFile::get_string_array(std::string_view key) const {
  constexpr std::string_view kNeeded = "an array of strings";
  BASS_ASSIGN_OR_RETURN(const GgufArray* array, get_array(key, kNeeded));
  if (array->element_type != GgufType::kString) return wrong_kind(key, kNeeded);
  std::vector<std::string_view> strings;
  strings.reserve(array->n_elements);
  const std::byte* at = array->bytes.data();
  for (size_t i = 0; i < array->n_elements; ++i) {
    const auto len = static_cast<size_t>(load<uint64_t>(at));
    strings.emplace_back(reinterpret_cast<const char*>(at + sizeof(uint64_t)), len);
    at += sizeof(uint64_t) + len;
  }
  return strings;
}

Result<std::vector<int64_t>> GgufFile::get_int_array(std::string_view key) const {
  constexpr std::string_view kNeeded = "an array of integers";
  BASS_ASSIGN_OR_RETURN(const GgufArray* array, get_array(key, kNeeded));
  const size_t element_bytes = gguf_format::scalar_bytes(array->element_type);
  if (element_bytes == 0) return wrong_kind(key, kNeeded);
  std::vector<int64_t> numbers;
  numbers.reserve(array->n_elements);
  for (size_t i = 0; i < array->n_elements; ++i) {
    const std::byte* at = array->bytes.data() + i * element_bytes;
    const std::optional<int64_t> number = to_i64(gguf_format::load_scalar(array->element_type, at));
    if (!number.has_value()) return wrong_kind(key, kNeeded);
    numbers.push_back(*number);
  }
  return numbers;
}

Result<std::vector<float>> GgufFile::get_float_array(std::string_view key) const {
  constexpr std::string_view kNeeded = "an array of floating-point numbers";
  BASS_ASSIGN_OR_RETURN(const GgufArray* array, get_array(key, kNeeded));
  if (array->element_type != GgufType::kF32 && array->element_type != GgufType::kF64) return wrong_kind(key, kNeeded);
  const size_t element_bytes = gguf_format::scalar_bytes(array->element_type);
  std::vector<float> numbers;
  numbers.reserve(array->n_elements);
  for (size_t i = 0; i < array->n_elements; ++i) {
    const GgufValue value = gguf_format::load_scalar(array->element_type, array->bytes.data() + i * element_bytes);
    numbers.push_back(static_cast<float>(std::get<double>(value)));
  }
  return numbers;
}

}  // namespace bass
