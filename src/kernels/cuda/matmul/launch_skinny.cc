// Products of a library's numbers: by the library, or by our own kernels for few rows.
#include <type_traits>

#include "base/check.h"
#include "kernels/cuda/matmul/launch_product.h"
#include "kernels/cuda/matmul/skinny_product.h"

namespace bass::cuda {
namespace {

template <class Kernel>
void run(Device& device, const ProductArguments& a) {
  const Kernel kernel{{a}};
  launch(device, kernel, kernel.shape(device.info().n_multiprocessors));
}

template <class... Kernels>
struct KernelsOf {};
using ResidentBf16 = KernelsOf<ResidentBf16x1x4, ResidentBf16x1x8, ResidentBf16x1x14, ResidentBf16x2x4>;
using ResidentInt8 = KernelsOf<ResidentInt8x1x4, ResidentInt8x1x8, ResidentInt8x1x14, ResidentInt8x2x4>;
using ResidentFp8 = KernelsOf<ResidentFp8x1x4, ResidentFp8x1x8, ResidentFp8x1x14, ResidentFp8x2x4>;

/// use(kernel type) of the first one that fits. false: there is none
template <class... Kernels, class Use>
bool use_resident(KernelsOf<Kernels...> /*kernels*/, int n_rows, int n_in, Use use) {
  const auto try_one = [&]<class Kernel>(std::type_identity<Kernel> kernel) {
    if (!Kernel::fits(n_rows, n_in)) return false;
    use(kernel);
    return true;
  };
  return (try_one(std::type_identity<Kernels>{}) || ...);
}
template <class Use>
bool use_resident(const DeviceMatrix& w, int n_rows, Use use) {
  switch (w.library) {
    case LibraryNumbers::kBf16:
      return use_resident(ResidentBf16{}, n_rows, w.n_in, use);
    case LibraryNumbers::kInt8:
      return use_resident(ResidentInt8{}, n_rows, w.n_in, use);
    case LibraryNumbers::kFp8:
      return use_resident(ResidentFp8{}, n_rows, w.n_in, use);
    case LibraryNumbers::kNone:
      break;
  }
  return false;
}

template <class K1x1, class K1x2, class K2x1, class K2x2, class K4x1>
void run_by_rows(Device& device, const ProductArguments& a, bool has_two_tiles) {
  if (a.n_rows <= kSkinnyMaxRows[0]) return has_two_tiles ? run<K1x2>(device, a) : run<K1x1>(device, a);
  if (a.n_rows <= kSkinnyMaxRows[1]) return has_two_tiles ? run<K2x2>(device, a) : run<K2x1>(device, a);
  run<K4x1>(device, a);
}

void run_skinny(Device& device, const ProductArguments& a, bool has_two_tiles) {
  switch (a.w.library) {
    case LibraryNumbers::kBf16:
      return run_by_rows<SkinnyBf16x1x1, SkinnyBf16x1x2, SkinnyBf16x2x1, SkinnyBf16x2x2, SkinnyBf16x4x1>(device, a,
                                                                                                         has_two_tiles);
    case LibraryNumbers::kInt8:
      return run_by_rows<SkinnyInt8x1x1, SkinnyInt8x1x2, SkinnyInt8x2x1, SkinnyInt8x2x2, SkinnyInt8x4x1>(device, a,
                                                                                                         has_two_tiles);
    case LibraryNumbers::kFp8:
      return run_by_rows<SkinnyFp8x1x1, SkinnyFp8x1x2, SkinnyFp8x2x1, SkinnyFp8x2x2, SkinnyFp8x4x1>(device, a,
                                                                                                    has_two_tiles);
    case LibraryNumbers::kNone:
      break;
  }
}

// True: the library has queued it. Else our kernels for few rows have, if they can: they take any number.
bool multiply_by_library(Device& device, const ProductArguments& a, const LibraryProduct& product) {
  const bool has_other_way = fits_skinny_product(a.w.library, a.w.n_in);
  if (device.multiply(product, has_other_way)) return true;
  if (has_other_way) run_skinny(device, a, /*has_two_tiles=*/false);
  return false;
}

void run_library(Device& device, const ProductArguments& a) {
  LibraryProduct product{.numbers = a.w.library, .w = a.w.quants, .n_in = a.w.n_in};
  product.n_rows = library_padded(a.n_rows, a.w.library);
  product.n_out = library_padded(a.w.n_out, a.w.library);
  if (has_byte_numbers(a.w.library)) {
    product.x = a.x.token.q;
    product.out = a.x.token.sums;
    product.out_stride = product.n_out;
    if (!multiply_by_library(device, a, product)) return;
    const ScaleSums scale{a};
    return launch(device, scale, scale.shape());
  }
  product.x = a.x.bf16;
  product.out = a.out;
  product.out_stride = a.out_stride;
  product.accumulates = a.accumulates != 0;
  if (!multiply_by_library(device, a, product) || a.w.bias == nullptr) return;
  const AddBias kernel{a.out, a.out_stride, a.n_rows, a.w.n_out, a.w.bias};
  launch(device, kernel, kernel.shape());
}

}  // namespace

bool can_launch_skinny(const DeviceMatrix& w, int n_rows, SkinnyKind kind) {
  if (kind == SkinnyKind::kNone) return w.library != LibraryNumbers::kNone;
  if (!fits_skinny_product(w.library, w.n_in) || n_rows > kSkinnyMaxRows[kSkinnySizes - 1]) return false;
  if (kind == SkinnyKind::kTwoTiles) return n_rows <= kSkinnyMaxRows[kSkinnySizes - 2];
  return kind == SkinnyKind::kOneTile || use_resident(w, n_rows, [](auto /*kernel*/) {});
}

void launch_skinny(Device& device, const ProductArguments& a, SkinnyKind kind) {
  BASS_CHECK(can_launch_skinny(a.w, a.n_rows, kind));
  if (has_byte_numbers(a.w.library)) {
    BASS_CHECK(a.x.token.q != nullptr && a.x.token.numbers == a.w.library);
  } else {
    BASS_CHECK(a.x.bf16 != nullptr);
  }
  if (kind == SkinnyKind::kNone) return run_library(device, a);
  if (kind != SkinnyKind::kResident) return run_skinny(device, a, kind == SkinnyKind::kTwoTiles);
  use_resident(a.w, a.n_rows, [&]<class Kernel>(std::type_identity<Kernel> /*kernel*/) { run<Kernel>(device, a); });
}

}  // namespace bass::cuda
