// Compiles a kernel of kernel_list.h for a GPU: BASS_COMPILE_KERNEL(Kernel) in one .cu file.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/gpu/gpu_context.cuh"
#include "kernels/cuda/gpu/gpu_kernels.h"

namespace bass::cuda {

// The next kernel's blocks may come as soon as all of this one's are there: they take only what these leave free, and
// wait themselves.
template <class Kernel>
__global__ void __launch_bounds__(Kernel::kMaxThreads, min_blocks<Kernel>())
    run_kernel(const __grid_constant__ Kernel kernel) {
  GpuContext context;
  context.let_next_start();
  if constexpr (!starts_early<Kernel>()) context.wait_for_input();
  kernel(context);
}

}  // namespace bass::cuda

#define BASS_COMPILE_KERNEL(Kernel)                                                   \
  namespace bass::cuda {                                                              \
  template <>                                                                         \
  GpuKernel gpu_kernel<Kernel>() {                                                    \
    return {reinterpret_cast<const void*>(&run_kernel<Kernel>), Kernel::kMaxThreads}; \
  }                                                                                   \
  }
