#include "kernels/cuda/matmul/launch_product.h"

#include "base/check.h"

namespace bass::cuda {
namespace {

template <class Kernel>
void run(Device& device, const ProductArguments& arguments) {
  const Kernel kernel{{arguments}};
  launch(device, kernel, kernel.shape());
}

void run_4(Device& device, const ProductArguments& arguments) {
  if (arguments.w.scale_kind == ScaleKind::kWhole) return run<Product4Whole>(device, arguments);
  if (arguments.w.has_minima != 0) return run<Product4Minima>(device, arguments);
  run<Product4>(device, arguments);
}

void run_8(Device& device, const ProductArguments& arguments) {
  const bool has_minima = arguments.w.has_minima != 0;
  switch (arguments.w.scale_kind) {
    case ScaleKind::kPlain:
      return has_minima ? run<Product8Minima>(device, arguments) : run<Product8>(device, arguments);
    case ScaleKind::kWhole:
      return run<Product8Whole>(device, arguments);
    case ScaleKind::kWholeHalf:
      return has_minima ? run<Product8HalfMinima>(device, arguments) : run<Product8Half>(device, arguments);
  }
}

}  // namespace

void launch_product(Device& device, const ProductArguments& arguments) {
  if (arguments.n_rows == 0) return;
  BASS_CHECK(arguments.x.n_cols == arguments.w.n_in);
  if (arguments.w.bits == 4) return run_4(device, arguments);
  if (arguments.w.bits == 8) return run_8(device, arguments);
  const FloatProduct kernel{arguments};
  launch(device, kernel, kernel.shape());
}

}  // namespace bass::cuda
