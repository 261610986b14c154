// The tables that kernels.cc chooses from. On other processors than x86-64 only the scalar one exists.
#pragma once

#include "kernels/cpu/kernels.h"

namespace bass::cpu {

extern const Kernels kScalarKernels;
#ifdef BASS_X86_KERNELS
extern const Kernels kAvx2Kernels;
extern const Kernels kAvxVnniKernels;
extern const Kernels kAvx512VnniKernels;
const Kernels& avx512_amx_kernels();
const Kernels& emulated_amx_kernels();  // runs wherever AVX-512 VNNI does
/// Whether a product of tiles gives what it must. Only where processor and operating system allow tiles.
bool tiles_work();
#endif

}  // namespace bass::cpu
