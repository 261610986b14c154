// Compiles a kernel of kernel_list.h for a GPU: BASS_COMPILE_KERNEL(Kernel) in one .cu file.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/gpu/gpu_context.cuh"
#include "kernels/cuda/gpu/gpu_kernels.h"

namespace bass::cuda {

template <class Kernel>
__global__ void __launch_bounds__(Kernel::kMaxThreads, 1) run_kernel(const __grid_constant__ Kernel kernel) {
  GpuContext context;
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
