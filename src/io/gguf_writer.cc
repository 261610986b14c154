#include "io/gguf_writer.h"

#include <array>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/check.h"

namespace bass {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr uint32_t kVersion = 3;

template <class T>
void append(std::string* out, T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void append_text(std::string* out, std::string_view text) {
  append<uint64_t>(out, text.size());
  out->append(text);
}

void append_array_head(std::string* out, GgufType type, size_t n_elements) {
  append(out, static_cast<uint32_t>(type));
  append<uint64_t>(out, n_elements);
}

/// GGUF's number for "most tensors are of this type".
uint32_t file_type_number(DType type) {
  constexpr std::array<std::pair<DType, uint32_t>, 14> kNumbers{{{DType::kF32, 0},
                                                                 {DType::kF16, 1},
                                                                 {DType::kQ4_0, 2},
                                                                 {DType::kQ4_1, 3},
                                                                 {DType::kQ8_0, 7},
                                                                 {DType::kQ5_0, 8},
                                                                 {DType::kQ5_1, 9},
                                                                 {DType::kQ2_K, 10},
                                                                 {DType::kQ3_K, 12},
                                                                 {DType::kQ4_K, 15},
                                                                 {DType::kQ5_K, 17},
                                                                 {DType::kQ6_K, 18},
                                                                 {DType::kIQ4_NL, 25},
                                                                 {DType::kBF16, 32}}};
  for (const auto& [known, number] : kNumbers) {
    if (known == type) return number;
  }
  return 0;
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

}  // namespace

void GgufWriter::add_key(std::string_view key, GgufType type) {
  BASS_CHECK(keys_.emplace(key).second);
  append_text(&metadata_, key);
  append(&metadata_, static_cast<uint32_t>(type));
  ++n_metadata_;
}

template <class T>
void GgufWriter::add_scalar(std::string_view key, GgufType type, T value) {
  add_key(key, type);
  append(&metadata_, value);
}

void GgufWriter::add_u32(std::string_view key, uint32_t value) { add_scalar(key, GgufType::kU32, value); }
void GgufWriter::add_f32(std::string_view key, float value) { add_scalar(key, GgufType::kF32, value); }
void GgufWriter::add_bool(std::string_view key, bool value) {
  add_scalar(key, GgufType::kBool, static_cast<uint8_t>(value));
}

void GgufWriter::add_string(std::string_view key, std::string_view value) {
  add_key(key, GgufType::kString);
  append_text(&metadata_, value);
}

void GgufWriter::add_file_type(DType most) {
  constexpr uint32_t kQuantizationVersion = 2;
  add_u32("general.file_type", file_type_number(most));
  add_u32("general.quantization_version", kQuantizationVersion);
}

void GgufWriter::add_strings(std::string_view key, std::span<const std::string> values) {
  add_key(key, GgufType::kArray);
  append_array_head(&metadata_, GgufType::kString, values.size());
  for (const std::string& value : values) append_text(&metadata_, value);
}

void GgufWriter::add_i32s(std::string_view key, std::span<const int32_t> values) {
  add_key(key, GgufType::kArray);
  append_array_head(&metadata_, GgufType::kI32, values.size());
  for (const int32_t value : values) append(&metadata_, value);
}

void GgufWriter::add_f32s(std::string_view key, std::span<const float> values) {
  add_key(key, GgufType::kArray);
  append_array_head(&metadata_, GgufType::kF32, values.size());
  for (const float value : values) append(&metadata_, value);
}

void GgufWriter::add_u8s(std::string_view key, std::span<const uint8_t> values) {
  add_key(key, GgufType::kArray);
  append_array_head(&metadata_, GgufType::kU8, values.size());
  for (const uint8_t value : values) append(&metadata_, value);
}

void GgufWriter::add_value(std::string_view key, const GgufValue& value) {
  struct Visitor {
    GgufWriter* writer;
    std::string_view key;

    void operator()(uint64_t number) const {
      if (number <= std::numeric_limits<uint32_t>::max()) return writer->add_u32(key, static_cast<uint32_t>(number));
      writer->add_scalar(key, GgufType::kU64, number);
    }
    void operator()(int64_t number) const {
      const auto narrow = static_cast<int32_t>(number);
      if (narrow == number) return writer->add_scalar(key, GgufType::kI32, narrow);
      writer->add_scalar(key, GgufType::kI64, number);
    }
    void operator()(double number) const {
      const auto narrow = static_cast<float>(number);
      if (narrow == number || number != number) return writer->add_f32(key, narrow);  // NaN needs no 64 bits
      writer->add_scalar(key, GgufType::kF64, number);
    }
    void operator()(bool flag) const { writer->add_bool(key, flag); }
    void operator()(std::string_view text) const { writer->add_string(key, text); }
    void operator()(const GgufArray& array) const {
      writer->add_key(key, GgufType::kArray);
      append_array_head(&writer->metadata_, array.element_type, array.n_elements);
      writer->metadata_.append(reinterpret_cast<const char*>(array.bytes.data()), array.bytes.size());
    }
  };
  std::visit(Visitor{this, key}, value);
}

void GgufWriter::add_tensor(std::string_view name, DType type, const std::vector<int64_t>& shape) {
  BASS_CHECK(tensor_names_.emplace(name).second && !shape.empty());
  const DTypeInfo& info = dtype_info(type);
  BASS_CHECK(shape.front() % info.block_len == 0);
  append_text(&tensors_, name);
  append(&tensors_, static_cast<uint32_t>(shape.size()));
  uint64_t n_elements = 1;
  for (const int64_t len : shape) {
    BASS_CHECK(len >= 1);
    append(&tensors_, static_cast<uint64_t>(len));
    n_elements *= static_cast<uint64_t>(len);
  }
  append(&tensors_, static_cast<uint32_t>(type));
  append(&tensors_, data_bytes_);
  tensor_bytes_.push_back(n_elements / static_cast<uint64_t>(info.block_len) * static_cast<uint64_t>(info.block_bytes));
  data_bytes_ += aligned(tensor_bytes_.back());
}

std::string GgufWriter::header() const {
  std::string out(kMagic);
  append(&out, kVersion);
  append<uint64_t>(&out, tensor_bytes_.size());
  append(&out, n_metadata_);
  out += metadata_;
  out += tensors_;
  out.resize(aligned(out.size()), '\0');
  return out;
}

uint64_t GgufWriter::file_bytes() const {
  const uint64_t counts_bytes = kMagic.size() + sizeof(kVersion) + 2 * sizeof(uint64_t);
  return aligned(counts_bytes + metadata_.size() + tensors_.size()) + data_bytes_;
}

Status GgufWriter::begin() { return sink_(bytes_of(header())); }

Status GgufWriter::write(std::span<const std::byte> piece) {
  BASS_CHECK(tensor_idx_ < tensor_bytes_.size());
  const uint64_t tensor_bytes = tensor_bytes_[tensor_idx_];
  BASS_CHECK(piece.size() <= tensor_bytes - n_written_);
  BASS_RETURN_IF_ERROR(sink_(piece));
  n_written_ += piece.size();
  if (n_written_ < tensor_bytes) return ok_status();
  n_written_ = 0;
  ++tensor_idx_;
  return pad(aligned(tensor_bytes) - tensor_bytes);
}

Status GgufWriter::pad(uint64_t n_bytes) {
  return n_bytes == 0 ? ok_status() : sink_(bytes_of(std::string(n_bytes, '\0')));
}

Status GgufWriter::finish() {
  BASS_CHECK(tensor_idx_ == tensor_bytes_.size());
  return ok_status();
}

}  // namespace bass
