// Drafting from and verifying vocabulary rows by themselves, on a GPU.
#pragma once

#include <memory>
#include <vector>

#include "kernels/cuda/device.h"
#include "kernels/sampling/sampling_params.h"

namespace bass {

/// Sequences of one request each, which drafted so many tokens.
struct RowsShape {
  int n_tokens = 0;  // of the vocabulary
  int n_sequences = 0;
  int n_drafted = 0;
};

/// Median seconds.
struct RowsTiming {
  double draft_s = 0;   // one token of each sequence; 0: nothing is drafted
  double verify_s = 0;  // n_drafted + 1 rows of each
  double judge_s = 0;   // what `block` does behind that; 0 for other rules
};

class GpuRowsBench {
 public:
  virtual ~GpuRowsBench() = default;
  /// All rows are verified, whichever draft is rejected. Error: the GPU's.
  virtual Result<RowsTiming> measure(const SamplingParams& params) = 0;
};

/// Made-up logits of a main model and of a draft that is near it. The device outlives it. Error: no memory.
Result<std::unique_ptr<GpuRowsBench>> make_gpu_rows_bench(cuda::Device* device, const RowsShape& shape);

}  // namespace bass
