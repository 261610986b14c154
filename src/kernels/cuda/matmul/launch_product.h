// Chooses a product's kernel.
#pragma once

#include "kernels/cuda/device.h"
#include "kernels/cuda/matmul/product.h"

namespace bass::cuda {

/// Queues out (+)= x W for all rows and channels. No rows: nothing.
void launch_product(Device& device, const ProductArguments& arguments);

}  // namespace bass::cuda
