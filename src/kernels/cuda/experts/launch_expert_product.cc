#include "kernels/cuda/experts/launch_expert_product.h"

#include "base/check.h"

namespace bass::cuda {
namespace {

template <class Kernel>
void run(Device& device, const ExpertProductArguments& arguments) {
  const Kernel kernel{{arguments}};
  launch(device, kernel, kernel.shape());
}

void run_4(Device& device, const ExpertProductArguments& a) {
  if (a.first.scale_kind == ScaleKind::kWhole) return run<Expert4Whole>(device, a);
  if (a.first.has_minima != 0) return run<Expert4Minima>(device, a);
  run<Expert4>(device, a);
}

void run_8(Device& device, const ExpertProductArguments& a) {
  const bool has_minima = a.first.has_minima != 0;
  switch (a.first.scale_kind) {
    case ScaleKind::kPlain:
      return has_minima ? run<Expert8Minima>(device, a) : run<Expert8>(device, a);
    case ScaleKind::kWhole:
      return run<Expert8Whole>(device, a);
    case ScaleKind::kWholeHalf:
      return has_minima ? run<Expert8HalfMinima>(device, a) : run<Expert8Half>(device, a);
  }
}

}  // namespace

void launch_expert_product(Device& device, const ExpertProductArguments& arguments) {
  if (arguments.max_rows == 0) return;
  BASS_CHECK(arguments.first.library == LibraryNumbers::kNone && arguments.x.n_cols == arguments.first.n_in);
  if (arguments.first.bits == 4) return run_4(device, arguments);
  if (arguments.first.bits == 8) return run_8(device, arguments);
  run<ExpertFloat>(device, arguments);
}

}  // namespace bass::cuda
