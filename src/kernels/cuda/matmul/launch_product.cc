#include "kernels/cuda/matmul/launch_product.h"

#include "base/check.h"
#include "kernels/cuda/matmul/skinny_product.h"
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

void run_library(Device& device, const ProductArguments& a) {
  LibraryProduct product{.numbers = a.w.library, .w = a.w.quants, .n_in = a.w.n_in};
  product.n_rows = library_padded(a.n_rows, a.w.library);
  product.n_out = library_padded(a.w.n_out, a.w.library);
  if (has_byte_numbers(a.w.library)) {
    BASS_CHECK(a.x.token.q != nullptr && a.x.token.numbers == a.w.library);
    product.x = a.x.token.q;
    product.out = a.x.token.sums;
    product.out_stride = product.n_out;
    device.multiply(product);
    const ScaleSums scale{a};
    return launch(device, scale, scale.shape());
  }
  BASS_CHECK(a.x.bf16 != nullptr);
  product.x = a.x.bf16;
  product.out = a.out;
  product.out_stride = a.out_stride;
  product.accumulates = a.accumulates != 0;
  device.multiply(product);
  if (a.w.bias == nullptr) return;
  const AddBias kernel{a.out, a.out_stride, a.n_rows, a.w.n_out, a.w.bias};
  launch(device, kernel, kernel.shape());
}

template <class OneTile, class TwoTiles = OneTile>
void run_skinny(Device& device, const ProductArguments& a, int n_tiles) {
  if (n_tiles == 2) return run<TwoTiles>(device, a);
  run<OneTile>(device, a);
}

template <class Kernels>
void run_skinny_of(Device& device, const ProductArguments& a, int n_tiles) {
  if (a.n_rows <= kSkinnyMaxRows[0]) return run_skinny<typename Kernels::x1x1, typename Kernels::x1x2>(device, a, n_tiles);
  if (a.n_rows <= kSkinnyMaxRows[1]) return run_skinny<typename Kernels::x2x1, typename Kernels::x2x2>(device, a, n_tiles);
  if (a.n_rows <= kSkinnyMaxRows[2]) return run_skinny<typename Kernels::x4x1, typename Kernels::x4x2>(device, a, n_tiles);
  run_skinny<typename Kernels::x8x1>(device, a, n_tiles);
}

void run_skinny(Device& device, const ProductArguments& a, int n_tiles) {
  BASS_CHECK(a.n_rows <= kSkinnyMaxRows[kSkinnySizes - 1] && fits_skinny_product(a.w.library, a.w.n_in));
  switch (a.w.library) {
    case LibraryNumbers::kBf16:
      BASS_CHECK(a.x.bf16 != nullptr);
      return run_skinny_of<SkinnyBf16>(device, a, n_tiles);
    case LibraryNumbers::kInt8:
      return run_skinny_of<SkinnyInt8>(device, a, n_tiles);
    case LibraryNumbers::kFp8:
      return run_skinny_of<SkinnyFp8>(device, a, n_tiles);
    case LibraryNumbers::kNone:
      break;
  }
}

int chosen_skinny_tiles(const DeviceMatrix& w, int n_rows) {
  for (int size = 0; size < kSkinnySizes; ++size) {
    if (n_rows <= kSkinnyMaxRows[size]) return w.skinny_tiles[size];
  }
  return 0;
}

void run_numbers(Device& device, const ProductArguments& a, ProductKind kind) {
  int n_tiles = kind == ProductKind::kSkinny1 ? 1 : kind == ProductKind::kSkinny2 ? 2 : 0;
  if (kind == ProductKind::kChosen) n_tiles = chosen_skinny_tiles(a.w, a.n_rows);
  if (n_tiles == 0) return run_library(device, a);
  BASS_CHECK(!has_byte_numbers(a.w.library) || (a.x.token.q != nullptr && a.x.token.numbers == a.w.library));
  run_skinny(device, a, n_tiles);
}

}  // namespace

void launch_product(Device& device, const ProductArguments& arguments, ProductKind kind) {
  if (arguments.n_rows == 0) return;
  BASS_CHECK(arguments.x.n_cols == arguments.w.n_in);
  if (arguments.w.library != LibraryNumbers::kNone) return run_numbers(device, arguments, kind);
  const bool uses_tiles =
      kind == ProductKind::kChosen ? arguments.n_rows > arguments.w.byte_rows : kind == ProductKind::kTiles;
  if (arguments.w.bits == 4) return run_4(device, arguments, uses_tiles);
  if (arguments.w.bits == 8) return run_8(device, arguments, uses_tiles);
  const FloatProduct kernel{arguments};
  launch(device, kernel, kernel.shape());
}

}  // namespace bass::cuda
