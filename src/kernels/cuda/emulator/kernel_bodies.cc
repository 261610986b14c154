#include "kernels/cuda/emulator/kernel_bodies.h"

#include "kernels/cuda/all_kernels.h"

namespace bass::cuda {

const EmulatedKernel& kernel_body(KernelId kernel) {
  static constexpr EmulatedKernel kBodies[] = {
#define BASS_KERNEL_BODY(Kernel) emulated_kernel<Kernel>(),
      BASS_GPU_KERNELS(BASS_KERNEL_BODY)
#undef BASS_KERNEL_BODY
  };
  return kBodies[static_cast<int>(kernel)];
}

}  // namespace bass::cuda
