#include "io/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "base/check.h"
#include "io/gguf_format.h"
#include "io/json_leaves.h"

namespace bass {
namespace {

using gguf_format::in_quotes;

constexpr size_t kLenBytes = sizeof(uint64_t);             // the header's length stands in front of it
constexpr uint64_t kMaxHeaderBytes = 100'000'000;          // the format's limit
constexpr uint64_t kMaxTensorBytes = uint64_t{1} << 62;    // far above any file
constexpr std::string_view kMetadataKey = "__metadata__";  // text about the file

constexpr std::array kTypes{
    SafetensorsType{"F32", 4, DType::kF32},      SafetensorsType{"F16", 2, DType::kF16},
    SafetensorsType{"BF16", 2, DType::kBF16},    SafetensorsType{"F64", 8, std::nullopt},
    SafetensorsType{"I64", 8, std::nullopt},     SafetensorsType{"U64", 8, std::nullopt},
    SafetensorsType{"I32", 4, std::nullopt},     SafetensorsType{"U32", 4, std::nullopt},
    SafetensorsType{"I16", 2, std::nullopt},     SafetensorsType{"U16", 2, std::nullopt},
    SafetensorsType{"I8", 1, std::nullopt},      SafetensorsType{"U8", 1, std::nullopt},
    SafetensorsType{"BOOL", 1, std::nullopt},    SafetensorsType{"F8_E4M3", 1, std::nullopt},
    SafetensorsType{"F8_E5M2", 1, std::nullopt}, SafetensorsType{"F8_E8M0", 1, std::nullopt},
};

/// A tensor while its entry is read.
struct Entry {
  SafetensorsTensor tensor;
  bool has_shape = false;
  std::vector<uint64_t> offsets;  // begin and end, from the start of the data
};

class HeaderReader {
 public:
  HeaderReader(std::span<const std::byte> bytes, const std::string& path) : bytes_(bytes), path_(path) {}

  Result<std::vector<SafetensorsTensor>> read() {
    BASS_RETURN_IF_ERROR(find_header());
    const std::string_view header(reinterpret_cast<const char*>(bytes_.data()) + kLenBytes, header_bytes_);
    BASS_RETURN_IF_ERROR(
        read_json_leaves(header, {path_, kLenBytes},
                         [this](std::span<const JsonStep> keys, const JsonLeaf& leaf) { return take(keys, leaf); }));
    for (Entry& entry : entries_) BASS_RETURN_IF_ERROR(place(&entry));
    BASS_RETURN_IF_ERROR(check_layout());
    std::vector<SafetensorsTensor> tensors;
    tensors.reserve(entries_.size());
    for (Entry& entry : entries_) tensors.push_back(std::move(entry.tensor));
    return tensors;
  }

 private:
  [[nodiscard]] Status error_at(uint64_t at, std::string_view what) const {
    return invalid_file(fmt::format("{}: {} (at byte {})", path_, what, at));
  }
  [[nodiscard]] Status error_in(std::string_view name, std::string_view what) const {
    return invalid_file(fmt::format("{}: {} (key {})", path_, what, in_quotes(name)));
  }

  Status find_header() {
    if (bytes_.size() < kLenBytes) {
      return error_at(bytes_.size(), "the file ends within its header's length: it is truncated");
    }
    header_bytes_ = gguf_format::load<uint64_t>(bytes_.data());
    if (header_bytes_ > kMaxHeaderBytes) {
      return error_at(0, fmt::format("is no safetensors file: its header would have {} bytes, more than {}",
                                     header_bytes_, kMaxHeaderBytes));
    }
    if (header_bytes_ > bytes_.size() - kLenBytes) {
      return error_at(0, fmt::format("its header claims {} bytes, but only {} are left: the file is truncated",
                                     header_bytes_, bytes_.size() - kLenBytes));
    }
    data_ = bytes_.subspan(kLenBytes + header_bytes_);
    return ok_status();
  }

  /// One value of the header. Keys of an object are unique, so a tensor's values follow each other.
  Status take(std::span<const JsonStep> keys, const JsonLeaf& leaf) {
    const std::string& name = keys.front().key;
    if (name == kMetadataKey) return take_metadata(keys, leaf);
    if (keys.size() == 1) {
      return error_in(name, fmt::format("a tensor's entry must be an object with dtype, shape and data_offsets, not {}",
                                        json_kind(leaf)));
    }
    if (entries_.empty() || entries_.back().tensor.name != name) {
      entries_.emplace_back();
      entries_.back().tensor.name = name;
    }
    Entry& entry = entries_.back();
    const std::string& field = keys[1].key;
    if (field == "dtype" && keys.size() == 2) return take_type(&entry, leaf);
    if (field == "shape" && is_list_entry(keys, leaf)) return take_size(&entry, leaf);
    if (field == "data_offsets" && is_list_entry(keys, leaf)) return take_offset(&entry, leaf);
    return error_in(name,
                    fmt::format("a tensor's entry has no place for {}", in_quotes(joined_json_path(keys.subspan(1)))));
  }

  Status take_metadata(std::span<const JsonStep> keys, const JsonLeaf& leaf) const {
    const bool is_text = keys.size() == 2 && std::holds_alternative<std::string>(leaf);
    const auto* empty = keys.size() == 1 ? std::get_if<JsonEmpty>(&leaf) : nullptr;
    if (is_text || (empty != nullptr && empty->is_object)) return ok_status();
    return error_in(kMetadataKey, fmt::format("must hold strings only, not {}", json_kind(leaf)));
  }

  /// An entry of an array that is a tensor's field, or the field as an empty array.
  static bool is_list_entry(std::span<const JsonStep> keys, const JsonLeaf& leaf) {
    if (keys.size() == 3) return keys[2].is_index && !std::holds_alternative<JsonEmpty>(leaf);
    const auto* empty = std::get_if<JsonEmpty>(&leaf);
    return keys.size() == 2 && empty != nullptr && !empty->is_object;
  }

  Status take_type(Entry* entry, const JsonLeaf& leaf) const {
    const auto* name = std::get_if<std::string>(&leaf);
    if (name == nullptr) {
      return error_in(entry->tensor.name, fmt::format("the dtype is {}, need a string", json_kind(leaf)));
    }
    const auto* const found = std::ranges::find(kTypes, std::string_view(*name), &SafetensorsType::name);
    if (found == kTypes.end()) return error_in(entry->tensor.name, fmt::format("unknown dtype {}", in_quotes(*name)));
    entry->tensor.type = found;
    return ok_status();
  }

  Status take_size(Entry* entry, const JsonLeaf& leaf) const {
    entry->has_shape = true;
    if (std::holds_alternative<JsonEmpty>(leaf)) return ok_status();  // one number
    const auto* size = std::get_if<uint64_t>(&leaf);
    if (size == nullptr || *size > kMaxTensorBytes) {
      return error_in(entry->tensor.name, fmt::format("the shape holds {}, need whole numbers from 0 to {}",
                                                      json_kind(leaf), kMaxTensorBytes));
    }
    entry->tensor.shape.push_back(static_cast<int64_t>(*size));
    return ok_status();
  }

  Status take_offset(Entry* entry, const JsonLeaf& leaf) const {
    const auto* offset = std::get_if<uint64_t>(&leaf);
    if (offset == nullptr || entry->offsets.size() == 2) {
      return error_in(entry->tensor.name, "data_offsets must be two whole numbers");
    }
    entry->offsets.push_back(*offset);
    return ok_status();
  }

  /// Finds the tensor's bytes: as many as its shape needs, inside of the file.
  Status place(Entry* entry) const {
    SafetensorsTensor& tensor = entry->tensor;
    if (tensor.type == nullptr) return error_in(tensor.name, "the tensor has no dtype");
    if (!entry->has_shape) return error_in(tensor.name, "the tensor has no shape");
    if (entry->offsets.size() != 2) return error_in(tensor.name, "data_offsets must be two whole numbers");
    uint64_t n_bytes = static_cast<uint64_t>(tensor.type->n_bytes);
    for (const int64_t size : tensor.shape) {
      if (__builtin_mul_overflow(n_bytes, static_cast<uint64_t>(size), &n_bytes)) {
        return error_in(tensor.name, "the tensor's shape is impossibly large");
      }
    }
    const uint64_t begin = entry->offsets[0];
    const uint64_t end = entry->offsets[1];
    if (begin > end) {
      return error_in(tensor.name, fmt::format("data_offsets end at {}, before they begin at {}", end, begin));
    }
    if (end > data_.size()) {
      return error_in(tensor.name, fmt::format("data_offsets end at {}, but there are {} bytes of data: the file is "
                                               "truncated or damaged",
                                               end, data_.size()));
    }
    if (end - begin != n_bytes) {
      return error_in(tensor.name,
                      fmt::format("the tensor's shape needs {} bytes, its data_offsets have {}", n_bytes, end - begin));
    }
    tensor.data = data_.subspan(begin, n_bytes);
    return ok_status();
  }

  /// Tensors cover the data: no gap, no overlap, nothing behind.
  [[nodiscard]] Status check_layout() const {
    std::vector<const Entry*> order;
    order.reserve(entries_.size());
    for (const Entry& entry : entries_) order.push_back(&entry);
    std::ranges::sort(order, {}, [](const Entry* entry) { return std::pair(entry->offsets[0], entry->offsets[1]); });
    uint64_t at = 0;
    for (const Entry* entry : order) {
      const uint64_t begin = entry->offsets[0];
      if (begin > at)
        return error_in(entry->tensor.name, fmt::format("{} bytes of data before the tensor are nobody's", begin - at));
      if (begin < at) return error_in(entry->tensor.name, "the tensor overlaps another one");
      at = entry->offsets[1];
    }
    if (at == data_.size()) return ok_status();
    return error_at(kLenBytes + header_bytes_ + at,
                    fmt::format("{} bytes behind the last tensor are nobody's", data_.size() - at));
  }

  std::span<const std::byte> bytes_;
  const std::string& path_;
  uint64_t header_bytes_ = 0;
  std::span<const std::byte> data_;
  std::vector<Entry> entries_;
};

}  // namespace

Result<std::vector<SafetensorsTensor>> parse_safetensors(std::span<const std::byte> bytes, const std::string& path) {
  return HeaderReader(bytes, path).read();
}

}  // namespace bass
