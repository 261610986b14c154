// What the emulator runs for each kernel.
#pragma once

#include "kernels/cuda/emulator/emulate.h"
#include "kernels/cuda/kernel_list.h"

namespace bass::cuda {

const EmulatedKernel& kernel_body(KernelId kernel);

}  // namespace bass::cuda
