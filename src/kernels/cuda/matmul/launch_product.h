// Chooses a product's kernel.
#pragma once

#include "kernels/cuda/device.h"
#include "kernels/cuda/matmul/product.h"

namespace bass::cuda {

/// Those of quantised weights have the same bits, and so have those of a library's int8; of its other numbers sums are
/// in another order.
enum class ProductKind {
  kChosen,  // by the number of rows: DeviceMatrix::byte_rows, skinny
  kBytes,   // ByteProduct
  kTiles    // TileProduct
};

/// Queues out (+)= x W for all rows and channels. No rows: nothing. Float weights have one kernel.
void launch_product(Device& device, const ProductArguments& arguments, ProductKind kind = ProductKind::kChosen);

/// Whether such a product can multiply so many rows of a library's numbers.
bool can_launch_skinny(const DeviceMatrix& w, int n_rows, SkinnyKind kind);
/// The same product of a library's numbers by this kind of kernel, which can_launch_skinny.
void launch_skinny(Device& device, const ProductArguments& arguments, SkinnyKind kind);

}  // namespace bass::cuda
