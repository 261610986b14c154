// GGUF files (versions 2 and 3), whole or split: typed metadata and tensors, read in place from mapped files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/mapped_file.h"
#include "bass/status.h"
#include "tensor/dtype.h"

namespace bass {

/// Types of metadata values. The numbers are the file format's.
enum class GgufType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

/// An array as it lies in the file. Its extent was checked when the file was opened; it is decoded when asked for.
struct GgufArray {
  GgufType element_type = GgufType::kU8;  ///< never kArray
  size_t n_elements = 0;
  std::span<const std::byte> bytes;  ///< strings: each behind its length (8 bytes)
};

/// Unsigned and signed integers of every width are widened; F32 and F64 are double.
using GgufValue = std::variant<uint64_t, int64_t, double, bool, std::string_view, GgufArray>;

struct TensorInfo {
  std::string name;
  DType type = DType::kF32;
  std::vector<int64_t> shape;  ///< GGUF's order: shape[0] is the contiguous one. 1 to 4 sizes, each >= 1
  std::span<const std::byte> data;
};

/// What a file holds. All views point into the bytes that were parsed.
struct GgufContents {
  uint32_t version = 0;
  std::vector<std::pair<std::string_view, GgufValue>> metadata;  ///< in the file's order; keys are unique
  std::vector<TensorInfo> tensors;                               ///< in the file's order; names are unique
};

/// Checks everything that can be checked without reading tensor data. `path` is for messages. Memory in use stays
/// proportional to the bytes that are really there, whatever counts they claim.
/// Errors (kInvalidFile): "PATH: what is wrong (at byte N | key 'K')".
Result<GgufContents> parse_gguf(std::span<const std::byte> bytes, const std::string& path);

/// An open GGUF file, or another model in a GGUF file's terms. Owns what all its views point into (moving it keeps them
/// valid). Thread-safe.
///
/// Getters fail with kInvalidFile, naming file and key, where the key is missing or its value is of another kind; the
/// `_or` ones give the default for a missing key only, so that a value of a wrong kind is never ignored.
class GgufFile {
 public:
  /// Of a split file ("x-00001-of-00003.gguf") any part may be named: all are opened, and their tensors are one list.
  static Result<GgufFile> open(const std::string& path);
  /// A model that lies in other files. path: for messages; metadata: a GGUF file without tensors, as GgufWriter makes
  /// it; files: what its tensors will point into (`replace_tensors`).
  static Result<GgufFile> assemble(const std::string& path, std::string metadata, std::vector<MappedFile> files);

  /// Other tensors in the place of those that there are. They may point into this model's files or into `buffers`.
  void replace_tensors(std::vector<TensorInfo> tensors, std::vector<AlignedBuffer> buffers);

  [[nodiscard]] bool has(std::string_view key) const { return find(key) != nullptr; }
  /// nullptr if there is no such key.
  [[nodiscard]] const GgufValue* find(std::string_view key) const;

  /// Any integer type whose value fits.
  [[nodiscard]] Result<uint32_t> get_u32(std::string_view key) const;
  [[nodiscard]] Result<uint32_t> get_u32_or(std::string_view key, uint32_t fallback) const;
  [[nodiscard]] Result<float> get_f32(std::string_view key) const;
  [[nodiscard]] Result<float> get_f32_or(std::string_view key, float fallback) const;
  [[nodiscard]] Result<bool> get_bool_or(std::string_view key, bool fallback) const;
  [[nodiscard]] Result<std::string_view> get_string(std::string_view key) const;
  [[nodiscard]] Result<std::string_view> get_string_or(std::string_view key, std::string_view fallback) const;
  [[nodiscard]] Result<std::vector<std::string_view>> get_string_array(std::string_view key) const;
  /// Of any integer type whose values fit (booleans give 0 and 1).
  [[nodiscard]] Result<std::vector<int64_t>> get_int_array(std::string_view key) const;
  [[nodiscard]] Result<std::vector<float>> get_float_array(std::string_view key) const;

  /// nullptr if there is no such tensor.
  [[nodiscard]] const TensorInfo* find_tensor(std::string_view name) const;
  [[nodiscard]] std::span<const TensorInfo> tensors() const { return contents_.tensors; }
  [[nodiscard]] std::span<const std::pair<std::string_view, GgufValue>> metadata() const { return contents_.metadata; }
  [[nodiscard]] uint32_t version() const { return contents_.version; }
  [[nodiscard]] const std::string& path() const { return path_; }
  /// Of all files that this model lies in.
  [[nodiscard]] int64_t file_bytes() const;
  /// Of tensors that were made at load and lie in memory.
  [[nodiscard]] int64_t buffer_bytes() const;
  [[nodiscard]] std::vector<std::string> file_paths() const;
  /// Error (kInvalidFile): bytes of a file went away while they were read.
  [[nodiscard]] Status check_intact() const;

 private:
  [[nodiscard]] Status missing(std::string_view key) const;
  [[nodiscard]] Status wrong_kind(std::string_view key, std::string_view needed) const;
  [[nodiscard]] Result<const GgufArray*> get_array(std::string_view key, std::string_view needed) const;

  void build_index();

  std::string path_;
  std::string metadata_;  // the bytes of an assembled model's metadata
  std::vector<MappedFile> files_;
  std::vector<AlignedBuffer> buffers_;
  GgufContents contents_;
  std::unordered_map<std::string_view, size_t> metadata_idx_;
  std::unordered_map<std::string_view, size_t> tensor_idx_;
};

}  // namespace bass
