// Writes GGUF files in memory, sound ones and, through the raw_ and override_ functions, broken ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bass::testing {

class GgufBuilder {
 public:
  // Metadata. The numbers are the file format's value types.
  GgufBuilder& add_u8(std::string_view key, uint8_t value) { return raw_entry(key, 0, bytes_of(value)); }
  GgufBuilder& add_i8(std::string_view key, int8_t value) { return raw_entry(key, 1, bytes_of(value)); }
  GgufBuilder& add_u16(std::string_view key, uint16_t value) { return raw_entry(key, 2, bytes_of(value)); }
  GgufBuilder& add_i16(std::string_view key, int16_t value) { return raw_entry(key, 3, bytes_of(value)); }
  GgufBuilder& add_u32(std::string_view key, uint32_t value) { return raw_entry(key, 4, bytes_of(value)); }
  GgufBuilder& add_i32(std::string_view key, int32_t value) { return raw_entry(key, 5, bytes_of(value)); }
  GgufBuilder& add_f32(std::string_view key, float value) { return raw_entry(key, 6, bytes_of(value)); }
  GgufBuilder& add_bool(std::string_view key, bool value) {
    return raw_entry(key, 7, bytes_of(static_cast<uint8_t>(value)));
  }
  GgufBuilder& add_string(std::string_view key, std::string_view value) {
    return raw_entry(key, 8, string_bytes(value));
  }
  GgufBuilder& add_u64(std::string_view key, uint64_t value) { return raw_entry(key, 10, bytes_of(value)); }
  GgufBuilder& add_i64(std::string_view key, int64_t value) { return raw_entry(key, 11, bytes_of(value)); }
  GgufBuilder& add_f64(std::string_view key, double value) { return raw_entry(key, 12, bytes_of(value)); }

  GgufBuilder& add_strings(std::string_view key, const std::vector<std::string>& values) {
    std::string body = bytes_of(uint32_t{8}) + bytes_of(static_cast<uint64_t>(values.size()));
    for (const std::string& value : values) body += string_bytes(value);
    return raw_entry(key, 9, body);
  }
  GgufBuilder& add_i32s(std::string_view key, const std::vector<int32_t>& values) { return add_array(key, 5, values); }
  GgufBuilder& add_f32s(std::string_view key, const std::vector<float>& values) { return add_array(key, 6, values); }
  /// Array of any scalar type: `type` must be T's.
  template <class T>
  GgufBuilder& add_array(std::string_view key, uint32_t type, const std::vector<T>& values) {
    std::string body = bytes_of(type) + bytes_of(static_cast<uint64_t>(values.size()));
    for (const T& value : values) body += bytes_of(value);
    return raw_entry(key, 9, body);
  }
  GgufBuilder& raw_entry(std::string_view key, uint32_t type, const std::string& value) {
    metadata_ += string_bytes(key) + bytes_of(type) + value;
    ++n_metadata_;
    return *this;
  }

  /// A tensor behind the ones that were added before. shape: GGUF's order, the contiguous size first.
  GgufBuilder& add_tensor(std::string_view name, uint32_t type, const std::vector<uint64_t>& shape,
                          std::string_view data) {
    pad(data_);
    const uint64_t offset = data_.size();
    data_ += data;
    return raw_tensor(name, type, shape, offset);
  }
  GgufBuilder& add_f32_tensor(std::string_view name, const std::vector<uint64_t>& shape,
                              const std::vector<float>& values) {
    return add_tensor(name, 0, shape, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
  }
  /// Only the description.
  GgufBuilder& raw_tensor(std::string_view name, uint32_t type, const std::vector<uint64_t>& shape, uint64_t offset) {
    tensors_ += string_bytes(name) + bytes_of(static_cast<uint32_t>(shape.size()));
    for (const uint64_t size : shape) tensors_ += bytes_of(size);
    tensors_ += bytes_of(type) + bytes_of(offset);
    ++n_tensors_;
    return *this;
  }

  /// Also writes general.alignment.
  GgufBuilder& set_alignment(uint32_t alignment) {
    alignment_ = alignment;
    return add_u32("general.alignment", alignment);
  }
  GgufBuilder& override_magic(std::string_view magic) {
    magic_ = magic;
    return *this;
  }
  GgufBuilder& override_version(uint32_t version) {
    version_ = version;
    return *this;
  }
  GgufBuilder& override_n_metadata(uint64_t count) {
    claimed_n_metadata_ = count;
    return *this;
  }
  GgufBuilder& override_n_tensors(uint64_t count) {
    claimed_n_tensors_ = count;
    return *this;
  }

  /// Everything before the padding in front of the data.
  [[nodiscard]] std::string build_header() const {
    return magic_ + bytes_of(version_) + bytes_of(claimed_n_tensors_.value_or(n_tensors_)) +
           bytes_of(claimed_n_metadata_.value_or(n_metadata_)) + metadata_ + tensors_;
  }
  [[nodiscard]] std::string build() const {
    std::string file = build_header();
    if (n_tensors_ == 0) return file;
    pad(file);
    return file + data_;
  }
  void write(const std::string& path) const {
    const std::string file = build();
    std::ofstream(path, std::ios::binary).write(file.data(), static_cast<std::streamsize>(file.size()));
  }

  template <class T>
  static std::string bytes_of(T value) {
    std::string out(sizeof(T), '\0');
    std::memcpy(out.data(), &value, sizeof(T));
    return out;
  }
  static std::string string_bytes(std::string_view text) {
    return bytes_of(static_cast<uint64_t>(text.size())) + std::string(text);
  }

 private:
  void pad(std::string& out) const { out.resize((out.size() + alignment_ - 1) / alignment_ * alignment_, '\0'); }

  std::string magic_ = "GGUF";
  uint32_t version_ = 3;
  uint32_t alignment_ = 32;
  uint64_t n_metadata_ = 0;
  uint64_t n_tensors_ = 0;
  std::optional<uint64_t> claimed_n_metadata_;
  std::optional<uint64_t> claimed_n_tensors_;
  std::string metadata_;
  std::string tensors_;
  std::string data_;
};

}  // namespace bass::testing
