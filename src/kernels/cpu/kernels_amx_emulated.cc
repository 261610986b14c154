// The kernels for AMX with plain loops in place of tiles, for tests. A file of its own, as it may be compiled with less
// optimisation.
#define BASS_SIMD_NAMESPACE avx512amx_emulated

// The vectors come first; the kernels are written in terms of them.
// clang-format off
#include "kernels/cpu/simd_avx512.h"
#include "kernels/cpu/byte_dot_impl.h"
#include "kernels/cpu/kernel_amx_impl.h"
// clang-format on

namespace bass::cpu {

constinit const AmxKernels kEmulatedAmxKernels{
    .min_panel_rows = avx512amx_emulated::kMinRowsOnTiles,
    .quantise = avx512amx_emulated::quantise_with_panels,
    .matmul = avx512amx_emulated::matmul_on_tiles<avx512amx_emulated::EmulatedTiles>,
    .keep_tiles = nullptr,
    .release_tiles = nullptr,
    .tile_peak = {},
};

}  // namespace bass::cpu
