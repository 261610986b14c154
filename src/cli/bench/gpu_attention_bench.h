// Attention by itself on a GPU.
#pragma once

#include <memory>

#include "cli/bench/attention_bench.h"
#include "kernels/cuda/device.h"

namespace bass {

/// Its only limit is how fast it copies its memory, reading and writing together, which is measured here. Keys and
/// values are of so many layers that the largest batch gets past all caches; a small one beside a large one may not.
/// Error: too little memory for that.
Result<std::unique_ptr<AttentionMachine>> make_gpu_attention_machine(std::unique_ptr<cuda::Device> device);

}  // namespace bass
