#include "kernels/cuda/matmul/launch_product.h"

#include "base/check.h"
#include "kernels/cuda/matmul/tile_product.h"

namespace bass::cuda {
namespace {

template <class Kernel>
void run(Device& device, const ProductArguments& arguments) {
  const Kernel kernel{{arguments}};
  launch(device, kernel, kernel.shape());
}

template <class Bytes, class Tiles>
void run_kind(Device& device, const ProductArguments& arguments, bool uses_tiles) {
  if (uses_tiles) return run<Tiles>(device, arguments);
  run<Bytes>(device, arguments);
}

void run_4(Device& device, const ProductArguments& a, bool uses_tiles) {
  if (a.w.scale_kind == ScaleKind::kWhole) return run_kind<Product4Whole, Tile4Whole>(device, a, uses_tiles);
  if (a.w.has_minima != 0) return run_kind<Product4Minima, Tile4Minima>(device, a, uses_tiles);
  run_kind<Product4, Tile4>(device, a, uses_tiles);
}

void run_8(Device& device, const ProductArguments& a, bool uses_tiles) {
  const bool has_minima = a.w.has_minima != 0;
  switch (a.w.scale_kind) {
    case ScaleKind::kPlain:
      return has_minima ? run_kind<Product8Minima, Tile8Minima>(device, a, uses_tiles)
                        : run_kind<Product8, Tile8>(device, a, uses_tiles);
    case ScaleKind::kWhole:
      return run_kind<Product8Whole, Tile8Whole>(device, a, uses_tiles);
    case ScaleKind::kWholeHalf:
      return has_minima ? run_kind<Product8HalfMinima, Tile8HalfMinima>(device, a, uses_tiles)
                        : run_kind<Product8Half, Tile8Half>(device, a, uses_tiles);
  }
}

SkinnyKind chosen_skinny(const DeviceMatrix& w, int n_rows) {
  for (int size = 0; size < kSkinnySizes; ++size) {
    if (n_rows <= kSkinnyMaxRows[size]) return w.skinny[size];
  }
  return SkinnyKind::kNone;
}

}  // namespace

void launch_product(Device& device, const ProductArguments& arguments, ProductKind kind) {
  if (arguments.n_rows == 0) return;
  BASS_CHECK(arguments.x.n_cols == arguments.w.n_in);
  if (arguments.w.library != LibraryNumbers::kNone) {
    return launch_skinny(device, arguments, chosen_skinny(arguments.w, arguments.n_rows));
  }
  const bool uses_tiles =
      kind == ProductKind::kChosen ? arguments.n_rows > arguments.w.byte_rows : kind == ProductKind::kTiles;
  if (arguments.w.bits == 4) return run_4(device, arguments, uses_tiles);
  if (arguments.w.bits == 8) return run_8(device, arguments, uses_tiles);
  const FloatProduct kernel{arguments};
  launch(device, kernel, kernel.shape());
}

}  // namespace bass::cuda
