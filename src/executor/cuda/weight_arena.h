// Weights on their way to a device: packed on the host, copied to one piece of device memory.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/thread_team.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/matmul/device_matrix.h"
#include "kernels/cuda/rows/norm_rows.h"
#include "model/model_file.h"

namespace bass::cuda {

/// Rows of a head that a draft reads: of a matrix in a file, some channels, perhaps in another type.
struct HeadPart {
  std::span<const int32_t> ids;
  std::optional<DType> type;  // none: as they are
};

/// Used twice: first it only counts, then `open` takes the memory and the same calls fill it.
class WeightArena {
 public:
  /// library: whose products they are, if not our kernels'.
  WeightArena(Device* device, ThreadTeam* team, LibraryNumbers library = LibraryNumbers::kNone)
      : device_(device), team_(team), library_(library) {}

  [[nodiscard]] size_t n_bytes() const { return n_used_; }  // counted so far
  [[nodiscard]] bool open();
  [[nodiscard]] DeviceBuffer take_memory() { return std::move(memory_); }

  /// Error: a copy to the device failed, or (kInvalidFile) a number of a HeadPart does not fit its type.
  [[nodiscard]] const Status& status() const { return status_; }

  /// The matrix as our kernels read it. n_out 0: nothing.
  DeviceMatrix matrix(const MatrixRef& ref);
  /// The matrix of a product, or what is left of it by `part`.
  DeviceMatrix product(const MatrixRef& ref, const HeadPart* part = nullptr);
  /// Several matrices as one, the channels of the first in front; can_join has said that they have one type, one n_in
  /// and whole tiles.
  static bool can_join(std::span<const MatrixRef* const> refs);
  DeviceMatrix joint_product(std::span<const MatrixRef* const> refs);
  const float* floats(std::span<const float> values);  // null for none
  /// Descriptions of matrices that lie in this arena, for kernels that choose among them.
  const DeviceMatrix* matrices(std::span<const DeviceMatrix> values);
  DeviceNorm norm(const NormRef& ref) { return {floats(ref.weight), floats(ref.bias)}; }
  /// Room without contents.
  std::byte* room(size_t n_bytes);

 private:
  /// Matrices as one; with `part` a part of one matrix.
  using Refs = std::span<const MatrixRef* const>;
  DeviceMatrix any_product(Refs refs, const HeadPart* part);
  DeviceMatrix tiles(Refs refs, const HeadPart* part);
  DeviceMatrix library_matrix(Refs refs, const HeadPart* part);
  void pack_library_rows(Refs refs, const HeadPart* part, int n_channels, std::byte* numbers, float* scales);
  const float* bias(Refs refs, const HeadPart* part);
  void note_misfit(bool fits);
  void upload(std::byte* to, const void* from, size_t n_bytes);

  Device* device_;
  ThreadTeam* team_;
  LibraryNumbers library_;
  DeviceBuffer memory_;
  bool is_open_ = false;
  size_t n_used_ = 0;
  Status status_;
  std::vector<std::byte> packed_;
};

}  // namespace bass::cuda
