// The compiled kernels.
#pragma once

#include "kernels/cuda/kernel_list.h"

namespace bass::cuda {

struct GpuKernel {
  const void* function = nullptr;  // what cudaLaunchKernel takes
  int max_threads = 0;
};

/// Defined by BASS_COMPILE_KERNEL in a .cu file (gpu_launch.cuh).
template <class Kernel>
GpuKernel gpu_kernel();

#define BASS_DECLARE_GPU_KERNEL(Kernel) \
  template <>                           \
  GpuKernel gpu_kernel<Kernel>();
BASS_GPU_KERNELS(BASS_DECLARE_GPU_KERNEL)
#undef BASS_DECLARE_GPU_KERNEL

}  // namespace bass::cuda
