// The tables that kernels.cc chooses from. On other processors than x86-64 only the scalar one exists.
//
// They are constants: a function of an instruction set's file, however plain, is made of that set's instructions, so
// none may run before the processor is known to have them.
#pragma once

#include "kernels/cpu/kernels.h"

namespace bass::cpu {

extern const Kernels kScalarKernels;
#ifdef BASS_X86_KERNELS
extern const Kernels kAvx2Kernels;
extern const Kernels kAvxVnniKernels;
extern const Kernels kAvx512VnniKernels;

/// What AMX has of its own; the rest of its table is AVX-512 VNNI's.
struct AmxKernels {
  int min_panel_rows;
  decltype(Kernels::quantise) quantise;
  decltype(Kernels::matmul) matmul;
  decltype(Kernels::keep_tiles) keep_tiles;
  decltype(Kernels::release_tiles) release_tiles;
  PeakLoop tile_peak;
};
extern const AmxKernels kAmxKernels;
/// The same with plain loops for tiles: runs wherever AVX-512 VNNI does.
extern const AmxKernels kEmulatedAmxKernels;

/// Whether a product of tiles gives what it must. Only where processor and operating system allow tiles.
bool tiles_work();
#endif

}  // namespace bass::cpu
