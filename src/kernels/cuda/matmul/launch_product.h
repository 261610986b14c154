// Chooses a product's kernel.
#pragma once

#include "kernels/cuda/device.h"
#include "kernels/cuda/matmul/product.h"

namespace bass::cuda {

/// Those of quantised weights have the same bits, and so have those of a library's int8; of its other numbers sums are
/// in another order.
enum class ProductKind {
  kChosen,   // by the number of rows: DeviceMatrix::byte_rows, skinny_tiles
  kBytes,    // ByteProduct
  kTiles,    // TileProduct
  kLibrary,  // of a library's numbers, as the following
  kSkinny1,  // SkinnyProduct with one tile of channels a block; up to 64 rows
  kSkinny2   // with two; up to 32 rows
};

/// Queues out (+)= x W for all rows and channels. No rows: nothing. Float weights have one kernel.
void launch_product(Device& device, const ProductArguments& arguments, ProductKind kind = ProductKind::kChosen);

}  // namespace bass::cuda
