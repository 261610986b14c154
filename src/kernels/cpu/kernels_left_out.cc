// Names for what a build with sanitizers leaves out, as the processor that it is made on lacks the instructions, or its
// tests need no more (CMakeLists.txt).
#include "kernels/cpu/kernel_tables.h"

namespace bass::cpu {

#ifdef BASS_WITHOUT_AVX2
constinit const Kernels kAvx2Kernels = {.isa = Isa::kAvx2, .name = "avx2"};
#endif

#ifdef BASS_WITHOUT_AVX_VNNI
constinit const Kernels kAvxVnniKernels = {.isa = Isa::kAvxVnni, .name = "avxvnni"};
#endif

#ifdef BASS_WITHOUT_AVX512
constinit const Kernels kAvx512VnniKernels = {.isa = Isa::kAvx512Vnni, .name = "avx512vnni"};
#endif

#ifdef BASS_WITHOUT_AMX
constinit const AmxKernels kAmxKernels = {};
constinit const AmxKernels kEmulatedAmxKernels = {};
bool tiles_work() { return false; }
#endif

}  // namespace bass::cpu
