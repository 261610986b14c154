#include "kernels/cuda/matmul/product_choice.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "base/check.h"

namespace bass::cuda {
namespace {

constexpr std::array kRows{1, 2, 4, 8, 16, 32, 64};
constexpr int kRounds = 5;  // of which the shortest counts
constexpr int kPlanes = 1;

auto kind_of(const DeviceMatrix& w) {
  return std::tuple(w.bits, w.scale_kind, w.has_minima, w.library, w.n_out, w.n_in);
}

/// Rows to multiply with, and room for the products.
class Rows {
 public:
  Rows(Device* device, const DeviceMatrix& shape)
      : n_out_(shape.n_out),
        q_(device, size_t{kRows.back()} * static_cast<size_t>(shape.n_in)),
        scale_(device, q_.n_bytes() / kGroupLen * sizeof(float)),
        sums_(device, q_.n_bytes() / kGroupLen * 2 * sizeof(int32_t)),
        out_(device, size_t{kRows.back()} * static_cast<size_t>(shape.n_out) * sizeof(float)) {
    if (!ok()) return;
    x_ = {.n_cols = shape.n_in,
          .n_planes = kPlanes,
          .q = q_.as<int8_t>(),
          .scale = scale_.as<float>(),
          .sums = sums_.as<int32_t>()};
    for (const DeviceBuffer* buffer : {&q_, &scale_, &sums_}) device->fill(buffer->data(), 1, buffer->n_bytes());
  }
  [[nodiscard]] bool ok() const { return q_.ok() && scale_.ok() && sums_.ok() && out_.ok(); }
  [[nodiscard]] ProductArguments product(const DeviceMatrix& w, int n_rows) const {
    return {w, x_, out_.as<float>(), n_out_, n_rows, 0};
  }

 private:
  int n_out_;
  DeviceBuffer q_, scale_, sums_, out_;
  DeviceActivations x_;
};

/// Calls for products of matrices in turn.
class Stopwatch {
 public:
  Stopwatch(Device* device, const Rows* rows, std::span<DeviceMatrix* const> matrices)
      : device_(device), rows_(rows), matrices_(matrices) {}

  /// The shortest time; the device's errors come out at `synchronize`.
  double seconds(int n_rows, ProductKind kind) {
    double least = 0;
    for (int round = 0; round < kRounds; ++round) {
      device_->mark(0);
      launch_product(*device_, rows_->product(*matrices_[next_++ % matrices_.size()], n_rows), kind);
      device_->mark(1);
      if (!device_->synchronize().ok()) return 0;
      const double elapsed = device_->seconds_between(0, 1);
      least = round == 0 ? elapsed : std::min(least, elapsed);
    }
    return least;
  }

 private:
  Device* device_;
  const Rows* rows_;
  std::span<DeviceMatrix* const> matrices_;
  size_t next_ = 0;
};

// Of one type and shape.
Status choose_products(Device* device, std::span<DeviceMatrix* const> matrices) {
  if (matrices.empty() || !matrices.front()->is_quantised() || !device->info().has_own_speed) return ok_status();
  const Rows rows(device, *matrices.front());
  if (!rows.ok()) return device->synchronize();  // no room to measure in: the guess stays
  Stopwatch stopwatch(device, &rows, matrices);
  stopwatch.seconds(kRows.front(), ProductKind::kBytes);  // the first launch of a kernel loads it
  stopwatch.seconds(kRows.front(), ProductKind::kTiles);
  std::vector<ProductTimes> times;
  for (const int n_rows : kRows) {
    times.push_back(
        {n_rows, stopwatch.seconds(n_rows, ProductKind::kBytes), stopwatch.seconds(n_rows, ProductKind::kTiles)});
  }
  BASS_RETURN_IF_ERROR(device->synchronize());
  const int byte_rows = choose_byte_rows(times);
  for (DeviceMatrix* matrix : matrices) matrix->byte_rows = byte_rows;
  return ok_status();
}

}  // namespace

int choose_byte_rows(std::span<const ProductTimes> times) {
  int byte_rows = 0;
  for (const ProductTimes& time : times) {
    if (time.bytes_s > time.tiles_s) break;
    byte_rows = time.n_rows;
  }
  return byte_rows;
}

Status choose_all_products(Device* device, std::vector<DeviceMatrix*> matrices) {
  std::stable_sort(matrices.begin(), matrices.end(),
                   [](const DeviceMatrix* a, const DeviceMatrix* b) { return kind_of(*a) < kind_of(*b); });
  for (auto begin = matrices.begin(); begin != matrices.end();) {
    const auto end =
        std::find_if(begin, matrices.end(), [&](const DeviceMatrix* w) { return kind_of(*w) != kind_of(**begin); });
    BASS_RETURN_IF_ERROR(choose_products(device, {begin, end}));
    begin = end;
  }
  return ok_status();
}

}  // namespace bass::cuda
