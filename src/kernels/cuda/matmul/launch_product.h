// Chooses a product's kernel.
#pragma once

#include "kernels/cuda/device.h"
#include "kernels/cuda/matmul/product.h"

namespace bass::cuda {

/// All have the same bits, so only speed speaks for one or the other.
enum class ProductKind {
  kChosen,  // by the number of rows: DeviceMatrix::byte_rows
  kBytes,   // ByteProduct
  kTiles    // TileProduct
};

/// Queues out (+)= x W for all rows and channels. No rows: nothing. Float weights have one kernel.
void launch_product(Device& device, const ProductArguments& arguments, ProductKind kind = ProductKind::kChosen);

}  // namespace bass::cuda
