// Brings a file's matrix into the layout of DeviceMatrix.
#pragma once

#include <cstddef>
#include <functional>

#include "base/thread_team.h"
#include "kernels/cuda/matmul/device_matrix.h"

namespace bass::cuda {

/// Where the parts of a matrix begin, in bytes from its start, each at a multiple of 256.
struct DeviceMatrixLayout {
  size_t scales = 0;
  size_t minima = 0;
  size_t super_scales = 0;
  size_t super_minima = 0;
  size_t end = 0;
};

/// The shape of a matrix of a file's type: all but its pointers. n_in: whole blocks of the type.
DeviceMatrix device_matrix_shape(DType type, int n_out, int n_in);
DeviceMatrixLayout device_matrix_layout(const DeviceMatrix& shape);
/// Sets the pointers of a matrix that lies at `data`.
void place_device_matrix(const DeviceMatrixLayout& layout, const std::byte* data, DeviceMatrix* matrix);

/// Rows of a matrix in a file's format. row(channel): the channel's bytes, no alignment.
struct DeviceMatrixSource {
  DType type = DType::kF32;
  std::function<const std::byte*(int channel)> row;
};
/// Packs the tiles in `tiles`. to: the whole matrix, zero-filled, in host memory. Threads may share the tiles.
void pack_device_tiles(const DeviceMatrix& shape, const DeviceMatrixLayout& layout, const DeviceMatrixSource& source,
                       WorkRange tiles, std::byte* to);

}  // namespace bass::cuda
