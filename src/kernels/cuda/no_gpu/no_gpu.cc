// What is linked where BASS_CUDA is off.
#include "kernels/cuda/device.h"

namespace bass::cuda {

bool has_gpu_backend() { return false; }

Result<std::unique_ptr<Device>> open_gpu(int /*idx*/) {
  return unavailable("this build of BASS has no GPU backend; build it with -DBASS_CUDA=ON, or use --device cpu");
}

}  // namespace bass::cuda
