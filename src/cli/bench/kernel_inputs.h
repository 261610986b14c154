// Made-up weights and activations for measuring kernels.
#pragma once

#include <vector>

#include "base/aligned_buffer.h"
#include "kernels/cpu/kernels.h"

namespace bass {

/// Numbers around 0, the same on every machine.
std::vector<float> made_up_floats(size_t n);

/// A packed matrix [n_out, n_in] of small equal weights. Owns its data.
class MadeUpWeights {
 public:
  MadeUpWeights(DType type, int n_out, int n_in);
  [[nodiscard]] const cpu::PackedMatrix& matrix() const { return matrix_; }

 private:
  AlignedBuffer memory_;
  cpu::PackedMatrix matrix_;
};

/// Rows of activations in every form that a matmul reads. Owns its data.
class MadeUpActivations {
 public:
  /// n_cols: of a row; forms of int8 are made where it is a multiple of kGroupLen.
  MadeUpActivations(const cpu::Kernels& kernels, int n_rows, int n_cols, int n_planes);
  [[nodiscard]] const cpu::ActivationRows& rows() const { return rows_; }

 private:
  std::vector<float> f32_;
  AlignedBuffer groups_;
  AlignedBuffer panels_;
  cpu::ActivationRows rows_;
};

}  // namespace bass
