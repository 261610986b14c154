// Matrix products by NVIDIA's cuBLASLt, which is opened at run time: programs start without it.
#pragma once

#include <cuda_runtime.h>

#include <memory>

#include "kernels/cuda/device.h"

namespace bass::cuda {

/// Of one GPU. One thread at a time.
class LibraryProducts {
 public:
  /// On the GPU that is current. Error (kUnavailable): the library is not installed, or does not work here;
  /// kResourceExhausted: no memory for its workspace.
  static Result<std::unique_ptr<LibraryProducts>> open();
  virtual ~LibraryProducts() = default;

  /// Queues out (+)= x W^T. Errors name the shape (kInvalidArgument: the library knows no way for it; kInternal). The
  /// first product of a shape asks the library which of its kernels is best, on the host.
  virtual Status multiply(const LibraryProduct& product, cudaStream_t stream) = 0;
};

}  // namespace bass::cuda
