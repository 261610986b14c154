// Where the models run: the option --device, and the GPU that it names.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "executor/cuda/gpu_executor.h"

namespace bass {

/// "auto", "cpu", "cuda" or "cuda:N". Error: anything else, or a GPU in a build without CUDA.
Status check_device_name(std::string_view text);

struct OpenedDevice {
  std::unique_ptr<cuda::Device> gpu;  // null: the CPU
  std::string name;                   // "cpu" or "cuda:N"
  std::string note;                   // why `auto` took the CPU, in a build that has CUDA; empty otherwise
};
/// Opens the device of a name that check_device_name took. `auto` takes the first GPU, or the CPU.
Result<OpenedDevice> open_named_device(std::string_view name);

}  // namespace bass
