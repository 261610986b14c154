// The tables that kernels.cc chooses from. On other processors than x86-64 only the scalar one exists.
#pragma once

#include "kernels/cpu/kernels.h"

namespace bass::cpu {

extern const Kernels kScalarKernels;
#ifdef BASS_X86_KERNELS
extern const Kernels kAvx2Kernels;
extern const Kernels kAvxVnniKernels;
extern const Kernels kAvx512VnniKernels;
#endif

}  // namespace bass::cpu
