#include "kernels/cuda/matmul/product_choice.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

#include "base/check.h"
#include "kernels/cuda/matmul/skinny_part.h"

namespace bass::cuda {
namespace {

constexpr std::array kRows{1, 2, 4, 8, 16, 32, 64};
constexpr int kRounds = 5;    // of which the shortest counts
constexpr int kProducts = 4;  // of a round: what a launch takes the host hides behind the one in front
constexpr int kPlanes = 1;

auto kind_of(const DeviceMatrix& w) {
  return std::tuple(w.bits, w.scale_kind, w.has_minima, w.library, w.n_out, w.n_in);
}

/// Rows to multiply with, in the form that the weights read, and room for the products.
class Rows {
 public:
  Rows(Device* device, const DeviceMatrix& shape)
      : n_out_(shape.n_out),
        q_(device, kMaxRows * static_cast<size_t>(shape.n_in) * number_bytes(shape)),
        scale_(device, q_.n_bytes() / kGroupLen * sizeof(float)),
        sums_(device, q_.n_bytes() / kGroupLen * 2 * sizeof(int32_t)),
        library_sums_(device,
                      has_byte_numbers(shape.library)
                          ? kMaxRows * sizeof(int32_t) * static_cast<size_t>(library_padded(shape.n_out, shape.library))
                          : 0),
        out_(device, kMaxRows * static_cast<size_t>(shape.n_out) * sizeof(float)) {
    if (!ok()) return;
    x_.n_cols = shape.n_in;
    for (const DeviceBuffer* buffer : {&q_, &scale_, &sums_}) device->fill(buffer->data(), 1, buffer->n_bytes());
    if (has_byte_numbers(shape.library)) {
      x_.token = {shape.library, q_.as<uint8_t>(), scale_.as<float>(), library_sums_.data()};
    } else if (shape.library == LibraryNumbers::kBf16) {
      x_.bf16 = q_.as<uint16_t>();
    } else {
      x_.n_planes = kPlanes;
      x_.q = q_.as<int8_t>();
      x_.scale = scale_.as<float>();
      x_.sums = sums_.as<int32_t>();
    }
  }
  [[nodiscard]] bool ok() const { return q_.ok() && scale_.ok() && sums_.ok() && library_sums_.ok() && out_.ok(); }
  [[nodiscard]] ProductArguments product(const DeviceMatrix& w, int n_rows) const {
    return {w, x_, out_.as<float>(), n_out_, n_rows, 0};
  }

 private:
  static constexpr auto kMaxRows = static_cast<size_t>(kRows.back());
  static size_t number_bytes(const DeviceMatrix& w) {
    return w.library == LibraryNumbers::kNone ? 1 : library_number_bytes(w.library);
  }

  int n_out_;
  DeviceBuffer q_, scale_, sums_, library_sums_, out_;
  DeviceActivations x_;
};

/// Calls for products of matrices in turn.
class Stopwatch {
 public:
  Stopwatch(Device* device, const Rows* rows, std::span<DeviceMatrix* const> matrices)
      : device_(device), rows_(rows), matrices_(matrices) {}

  /// The shortest time of some products in a row; the device's errors come out at `synchronize`. launch(arguments)
  template <class Launch>
  double seconds(int n_rows, Launch launch) {
    double least = 0;
    for (int round = -1; round < kRounds; ++round) {  // the first launch of a kernel loads it
      device_->mark(0);
      for (int i = 0; i < kProducts; ++i) launch(rows_->product(*matrices_[next_++ % matrices_.size()], n_rows));
      device_->mark(1);
      if (!device_->synchronize().ok()) return 0;
      const double elapsed = device_->seconds_between(0, 1);
      if (round >= 0) least = round == 0 ? elapsed : std::min(least, elapsed);
    }
    return least;
  }
  double seconds(int n_rows, ProductKind kind) {
    return seconds(n_rows, [&](const ProductArguments& product) { launch_product(*device_, product, kind); });
  }
  double seconds(int n_rows, SkinnyKind kind) {
    return seconds(n_rows, [&](const ProductArguments& product) { launch_skinny(*device_, product, kind); });
  }

 private:
  Device* device_;
  const Rows* rows_;
  std::span<DeviceMatrix* const> matrices_;
  size_t next_ = 0;
};

int choose_byte_rows(Stopwatch* stopwatch) {
  std::vector<ProductTimes> times;
  for (const int n_rows : kRows) {
    times.push_back(
        {n_rows, stopwatch->seconds(n_rows, ProductKind::kBytes), stopwatch->seconds(n_rows, ProductKind::kTiles)});
  }
  return choose_byte_rows(times);
}

SkinnyKind choose_skinny(Stopwatch* stopwatch, const DeviceMatrix& shape, int n_rows) {
  SkinnyKind fastest = SkinnyKind::kNone;
  double least = INFINITY;
  for (const SkinnyKind kind :
       {SkinnyKind::kNone, SkinnyKind::kOneTile, SkinnyKind::kTwoTiles, SkinnyKind::kResident}) {
    if (!can_launch_skinny(shape, n_rows, kind)) continue;
    const double elapsed = stopwatch->seconds(n_rows, kind);
    if (elapsed >= least) continue;
    fastest = kind;
    least = elapsed;
  }
  return fastest;
}

// Of one type and shape.
Status choose_products(Device* device, std::span<DeviceMatrix* const> matrices) {
  if (matrices.empty() || !device->info().has_own_speed) return ok_status();
  const DeviceMatrix& shape = *matrices.front();
  const bool has_skinny = fits_skinny_product(shape.library, shape.n_in);
  if (!shape.is_quantised() && !has_skinny) return ok_status();
  const Rows rows(device, shape);
  if (!rows.ok()) return device->synchronize();  // no room to measure in: the guess stays
  Stopwatch stopwatch(device, &rows, matrices);
  DeviceMatrix choice;
  if (has_skinny) {
    for (int size = 0; size < kSkinnySizes; ++size) {
      choice.skinny[size] = choose_skinny(&stopwatch, shape, kSkinnyMaxRows[size]);
    }
  } else {
    choice.byte_rows = choose_byte_rows(&stopwatch);
  }
  BASS_RETURN_IF_ERROR(device->synchronize());
  for (DeviceMatrix* matrix : matrices) {
    matrix->byte_rows = choice.byte_rows;
    std::copy(std::begin(choice.skinny), std::end(choice.skinny), matrix->skinny);
  }
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
