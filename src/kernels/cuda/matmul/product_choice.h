// Which kernel multiplies fastest, by shape and number of rows: measured when a model is loaded.
#pragma once

#include <span>
#include <vector>

#include "kernels/cuda/device.h"
#include "kernels/cuda/matmul/launch_product.h"

namespace bass::cuda {

/// Seconds of a product of so many rows.
struct ProductTimes {
  int n_rows = 0;
  double bytes_s = 0;
  double tiles_s = 0;
};

/// DeviceMatrix::byte_rows for these times, ascending by rows: the most rows up to which bytes were nowhere slower.
int choose_byte_rows(std::span<const ProductTimes> times);

/// Times the kernels with 1 to 64 rows for each type and shape and sets byte_rows, or skinny. Matrices of one
/// shape are read one after the other, so that no cache holds what a step would read from memory. Those that have one
/// kernel, and devices without a speed of their own, are left as they are. Error: the device's.
Status choose_all_products(Device* device, std::vector<DeviceMatrix*> matrices);

}  // namespace bass::cuda
