// safetensors files: named tensors behind a JSON header, read in place from a mapped file; and the set of files that a
// checkpoint is split into (model.safetensors.index.json).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/mapped_file.h"
#include "bass/status.h"
#include "tensor/dtype.h"

namespace bass {

/// An element type of the format. BASS computes with F32, F16 and BF16; others are told apart so that a checkpoint may
/// hold them where they are not needed.
struct SafetensorsType {
  std::string_view name;
  int n_bytes;
  std::optional<DType> dtype;
};

struct SafetensorsTensor {
  std::string name;
  const SafetensorsType* type = nullptr;
  std::vector<int64_t> shape;  ///< outermost first; empty: one number. Sizes may be 0
  std::span<const std::byte> data;
  uint32_t file_idx = 0;  ///< of a checkpoint's files
};

/// Checks everything that can be checked without reading tensor data, in time and memory proportional to the header.
/// The result points into `bytes`. path: for messages. Errors (kInvalidFile): "PATH: what (at byte N | key 'K')".
Result<std::vector<SafetensorsTensor>> parse_safetensors(std::span<const std::byte> bytes, const std::string& path);

/// Whether a file's name is that of weights as Python programs pickle them: pytorch_model.bin, x.pt, x.pth, x.ckpt.
bool is_pickle(std::string_view name);

/// Why such weights are not read, and the mend, as the end of a sentence. from: the checkpoint, as transformers opens
/// it.
std::string pickle_mend(std::string_view from);

/// All tensors of a checkpoint. Owns the mappings that they point into. Movable. Thread-safe.
class SafetensorsCheckpoint {
 public:
  /// path: a .safetensors file, an index (.json), or a directory with model.safetensors or its index. Errors
  /// (kInvalidFile): those of the files; a shard that is missing, is named outside of the directory, lacks a tensor
  /// that the index promises, or holds one that another has.
  static Result<SafetensorsCheckpoint> open(const std::string& path);

  /// nullptr if there is none of this name.
  [[nodiscard]] const SafetensorsTensor* find(std::string_view name) const;
  [[nodiscard]] std::span<const SafetensorsTensor> tensors() const { return tensors_; }
  [[nodiscard]] const std::string& path_of(const SafetensorsTensor& tensor) const {
    return files_[tensor.file_idx].path();
  }
  /// Gives the mappings away: tensors stay valid as long as the new owner keeps them.
  std::vector<MappedFile> take_files() { return std::move(files_); }

 private:
  Status add_file(const std::string& path);
  Status add_indexed(const std::string& index_path);

  std::vector<MappedFile> files_;
  std::vector<SafetensorsTensor> tensors_;
  std::unordered_map<std::string, size_t> tensor_idx_;
};

}  // namespace bass
