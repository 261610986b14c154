// Rows of a main model's head, packed for a draft that has no head of its own.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/thread_team.h"
#include "bass/status.h"
#include "kernels/cpu/kernels.h"

namespace bass::cpu {

class HeadRows {
 public:
  HeadRows() = default;

  /// The rows `ids` of `head`, in `type` unless they have 4 bits or fewer as they are (or no whole groups); nullopt: as
  /// they are, to the bit. Copies all that it needs. Errors: kResourceExhausted; kInvalidFile where a number is too
  /// large for the type.
  static Result<HeadRows> pack(const PackedMatrix& head, std::span<const int32_t> ids, std::optional<DType> type,
                               ThreadTeam* team);

  [[nodiscard]] const PackedMatrix& matrix() const { return matrix_; }

 private:
  AlignedBuffer memory_;
  std::vector<float> bias_;
  PackedMatrix matrix_;
};

}  // namespace bass::cpu
