// The kernels of a model's step as pieces of work that can be timed and checked one by one.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/thread_team.h"
#include "bass/work.h"
#include "executor/cpu/cpu_model.h"
#include "kernels/cpu/kernels.h"

namespace bass {

/// One kernel on inputs of one size.
struct KernelOp {
  std::string name;
  std::string shape;
  Work work;             ///< of one call on all threads
  double set_bytes = 0;  ///< that calls read in turn: what decides which cache or memory they come from
  std::function<void(const TeamContext&)> run;
  /// One call on one thread, compared with the reference; false: it differs.
  std::function<bool()> check;
};

/// What the kernels run on.
struct KernelInputs {
  const cpu::Kernels* kernels = nullptr;
  const ModelFile* file = nullptr;
  const cpu::CpuModel* model = nullptr;
  int n_rows = 1;
  int n_planes = 1;
  int n_threads = 1;
};

/// The matrix products of every shape and format that the model has. Matrices of one shape are read in turn, as a step
/// does.
std::vector<KernelOp> matmul_ops(const KernelInputs& inputs);

/// What works on rows of activations: norm, quantisation, silu, rope, writing keys and values.
std::vector<KernelOp> row_ops(const KernelInputs& inputs);

/// What works on rows of logits: statistics, drawing, selection, residuals.
std::vector<KernelOp> vocabulary_ops(const KernelInputs& inputs);

}  // namespace bass
