// Writing GGUF files (version 3), front to back: metadata, what tensors there are, then their data piece by piece, so
// that a file may be larger than memory.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "bass/status.h"
#include "io/gguf.h"

namespace bass {

/// Takes the bytes of a file in order. Its error ends the writing and is passed on.
using ByteSink = std::function<Status(std::span<const std::byte>)>;

/// First the add_ functions, then `begin`, `write` for all data, `finish`. Keys and tensor names must be unique. What a
/// caller can do wrong here is a defect of ours (BASS_CHECK); only the sink reports errors.
///
///   GgufWriter writer(sink);
///   writer.add_string("general.architecture", "llama");
///   writer.add_tensor("output_norm.weight", DType::kF32, {576});
///   BASS_RETURN_IF_ERROR(writer.begin());
///   BASS_RETURN_IF_ERROR(writer.write(data));
///   BASS_RETURN_IF_ERROR(writer.finish());
class GgufWriter {
 public:
  explicit GgufWriter(ByteSink sink) : sink_(std::move(sink)) {}

  void add_u32(std::string_view key, uint32_t value);
  void add_f32(std::string_view key, float value);
  void add_bool(std::string_view key, bool value);
  void add_string(std::string_view key, std::string_view value);
  void add_strings(std::string_view key, std::span<const std::string> values);
  void add_i32s(std::string_view key, std::span<const int32_t> values);
  void add_f32s(std::string_view key, std::span<const float> values);
  /// How the file is written: the type that most of its elements have.
  void add_file_type(DType most);
  void add_u8s(std::string_view key, std::span<const uint8_t> values);
  /// A value as the reader gives it. Readers widen numbers: they are written as U32, I32 and F32 where that loses
  /// nothing, else with 64 bits.
  void add_value(std::string_view key, const GgufValue& value);

  /// Describes a tensor; data comes in the order of these calls. shape: GGUF's order, shape[0] is the contiguous one
  /// and a multiple of the type's block length.
  void add_tensor(std::string_view name, DType type, const std::vector<int64_t>& shape);

  /// Of the whole file, with the tensors added so far.
  [[nodiscard]] uint64_t file_bytes() const;

  /// Writes everything in front of the data.
  Status begin();
  /// The next piece of data, of one tensor; padding between tensors is written as needed.
  Status write(std::span<const std::byte> piece);
  /// Checks that all data was written.
  Status finish();

 private:
  static constexpr uint64_t kAlignment = 32;  // of tensor data, the format's default

  static uint64_t aligned(uint64_t n_bytes) { return (n_bytes + kAlignment - 1) / kAlignment * kAlignment; }
  void add_key(std::string_view key, GgufType type);
  template <class T>
  void add_scalar(std::string_view key, GgufType type, T value);
  [[nodiscard]] std::string header() const;
  Status pad(uint64_t n_bytes);

  ByteSink sink_;
  std::unordered_set<std::string> keys_;
  std::unordered_set<std::string> tensor_names_;
  uint64_t n_metadata_ = 0;
  std::string metadata_;
  std::string tensors_;                 // their descriptions
  std::vector<uint64_t> tensor_bytes_;  // [n_tensors], without padding
  uint64_t data_bytes_ = 0;             // of all tensors, with padding
  size_t tensor_idx_ = 0;               // of the tensor that is written now
  uint64_t n_written_ = 0;              // of its bytes
};

}  // namespace bass
