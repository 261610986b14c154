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

#define BASS_RUN_KIND(Bytes, Tile) \
  run_kind<Bytes, Tile##Split, Tile##Rows8, Tile##Rows16, Tile##Rows32, Tile##Rows64>(device, a, uses_tiles)

// With fewer tiles than this, a GPU has too few warps of few rows if none shares its tile: some four a multiprocessor.
constexpr int kManyTiles = 512;

// The kernel of a format whose blocks have room for all rows, if there is one, and no more than that.
template <class Bytes, class Split, class Rows8, class Rows16, class Rows32, class Rows64>
void run_kind(Device& device, const ProductArguments& arguments, bool uses_tiles) {
  if (!uses_tiles) return run<Bytes>(device, arguments);
  const int n_rows = arguments.n_rows;
  if (n_rows <= Split::kRows && arguments.w.n_tiles() <= kManyTiles) return run<Split>(device, arguments);
  if (n_rows <= Rows8::kRows) return run<Rows8>(device, arguments);
  if (n_rows <= Rows16::kRows) return run<Rows16>(device, arguments);
  if (n_rows <= Rows32::kRows || arguments.x.n_planes > Rows64::kMostPlanes) return run<Rows32>(device, arguments);
  run<Rows64>(device, arguments);
}

void run_4(Device& device, const ProductArguments& a, bool uses_tiles) {
  if (a.w.scale_kind == ScaleKind::kWhole) return BASS_RUN_KIND(Product4Whole, Tile4Whole);
  if (a.w.has_minima != 0) return BASS_RUN_KIND(Product4Minima, Tile4Minima);
  BASS_RUN_KIND(Product4, Tile4);
}

void run_8(Device& device, const ProductArguments& a, bool uses_tiles) {
  const bool has_minima = a.w.has_minima != 0;
  switch (a.w.scale_kind) {
    case ScaleKind::kPlain:
      return has_minima ? BASS_RUN_KIND(Product8Minima, Tile8Minima) : BASS_RUN_KIND(Product8, Tile8);
    case ScaleKind::kWhole:
      return BASS_RUN_KIND(Product8Whole, Tile8Whole);
    case ScaleKind::kWholeHalf:
      return has_minima ? BASS_RUN_KIND(Product8HalfMinima, Tile8HalfMinima) : BASS_RUN_KIND(Product8Half, Tile8Half);
  }
}
#undef BASS_RUN_KIND

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
