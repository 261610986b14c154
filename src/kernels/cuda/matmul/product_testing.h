// What tests of matrix products on a device share: matrices and rows there, and the reference's products.
#pragma once

#include <memory>
#include <vector>

#include "kernels/cpu/kernels_testing.h"
#include "kernels/cuda/device_testing.h"
#include "kernels/cuda/matmul/pack_device.h"
#include "kernels/cuda/rows/activate_rows.h"
#include "kernels/reference/reference.h"

namespace bass::cuda::testing {

inline bool is_float(DType type) { return type == DType::kF32 || type == DType::kF16 || type == DType::kBF16; }

/// A file's matrix on the device.
struct Uploaded {
  DeviceMatrix matrix;
  std::unique_ptr<DeviceArray<std::byte>> data;

  Uploaded(Device* device, const cpu::testing::FileMatrix& file)
      : matrix(device_matrix_shape(file.type, file.n_out, file.n_in)) {
    const DeviceMatrixLayout layout = device_matrix_layout(matrix);
    std::vector<std::byte> packed(layout.end);
    const DeviceMatrixSource source{file.type, [&](int channel) { return file.row(channel); }};
    pack_device_tiles(matrix, layout, source, {0, matrix.n_tiles()}, packed.data());
    data = std::make_unique<DeviceArray<std::byte>>(device, packed);
    place_device_matrix(layout, data->data(), &matrix);
  }
};

/// Rows of activations on the device, quantised there.
struct Rows {
  DeviceArray<float> f32;
  DeviceArray<int8_t> q;
  DeviceArray<float> scale;
  DeviceArray<int32_t> sums;
  DeviceActivations view;

  Rows(Device* device, const std::vector<float>& x, int n_rows, int n_cols, int n_planes)
      : f32(device, x),
        q(device, std::vector<int8_t>(x.size() * 2)),
        scale(device, std::vector<float>(x.size() / kGroupLen + 1)),
        sums(device, std::vector<int32_t>(x.size() / kGroupLen * 2 + 1)) {
    view = {n_cols, n_planes, static_cast<int64_t>(x.size()), q.data(), scale.data(), sums.data(), f32.data()};
    if (n_planes == 0) view.q = nullptr;
    const ActivateRows kernel{{.gate = f32.data(), .stride = n_cols, .n_rows = n_rows, .n = n_cols}, view};
    launch(*device, kernel, kernel.shape());
  }
};

inline std::vector<float> reference_product(const cpu::testing::FileMatrix& w, const std::vector<float>& x, int n_rows,
                                            int n_planes) {
  std::vector<float> out;
  for (int r = 0; r < n_rows; ++r) {
    const float* row = x.data() + static_cast<ptrdiff_t>(r) * w.n_in;
    const auto quantised = is_float(w.type) ? reference::QuantisedRow{} : reference::quantise(row, w.n_in, n_planes);
    for (int c = 0; c < w.n_out; ++c) {
      out.push_back(is_float(w.type) ? reference::float_dot(w.type, w.row(c), row, w.n_in)
                                     : reference::quantised_dot(w.type, w.row(c), quantised));
    }
  }
  return out;
}

}  // namespace bass::cuda::testing
