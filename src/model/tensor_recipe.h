// How a tensor of a model is made from tensors in files: as it is, or with its rows reordered, transposed, quantised.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/thread_team.h"
#include "bass/status.h"
#include "tensor/dtype.h"

namespace bass {

/// A matrix in a file: [n_rows, row_len], rows one behind another. A vector has rows of one element.
struct SourceMatrix {
  DType type = DType::kF32;
  int64_t n_rows = 0;
  int64_t row_len = 0;
  std::span<const std::byte> data;
};

struct TensorRecipe {
  std::string name;                   ///< as a GGUF file has it
  std::string origin;                 ///< "FILE: tensor 'x'", for messages
  std::vector<int64_t> shape;         ///< GGUF's order: shape[0] is the contiguous one
  int64_t row_len = 1;                ///< shape[0]; 1 where the elements of a vector are picked one by one
  DType type = DType::kF32;           ///< of the result
  std::vector<SourceMatrix> sources;  ///< one below another, all with one type and row length
  std::vector<int32_t> rows;          ///< row r of the result is row rows[r] of the sources; empty: all in order
  bool is_transposed = false;         ///< row r of the result is column r of the one source
  float addend = 0.0F;                ///< to each element
  std::vector<float> values;          ///< without sources: the result itself, F32

  [[nodiscard]] int64_t n_rows() const;
  [[nodiscard]] size_t row_bytes() const;
  [[nodiscard]] size_t n_bytes() const { return static_cast<size_t>(n_rows()) * row_bytes(); }
  /// Whether the result lies in the file as it is.
  [[nodiscard]] bool is_view() const;
};

/// Makes matrices of numbers into `type`, where their rows are a whole number of its blocks. Vectors, tables of
/// positions and the routers of experts stay as they are, and so does what is quantised already. How many it has made.
size_t quantise_recipes(DType type, std::span<TensorRecipe> recipes);

/// Makes the tensor, rows shared by the team: the same bytes whatever the team. out: [recipe.n_bytes()]
/// Error (kInvalidFile): a number that is not finite, or too large for the format.
Status make_tensor(const TensorRecipe& recipe, ThreadTeam* team, std::byte* out);

}  // namespace bass
