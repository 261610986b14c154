// Chooses the kernel of a product with the weights of experts.
#pragma once

#include "kernels/cuda/device.h"
#include "kernels/cuda/experts/expert_product.h"

namespace bass::cuda {

/// Queues the products of all slots. A library's matrices are refused when a model is loaded.
void launch_expert_product(Device& device, const ExpertProductArguments& arguments);

}  // namespace bass::cuda
