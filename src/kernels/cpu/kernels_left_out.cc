// Names for what a build with sanitizers leaves out, as the processor that it is made on lacks the instructions
// (CMakeLists.txt).
#include "kernels/cpu/kernel_tables.h"

namespace bass::cpu {

#ifdef BASS_WITHOUT_AVX_VNNI
constinit const Kernels kAvxVnniKernels = {.isa = Isa::kAvxVnni, .name = "avxvnni"};
#endif

#ifdef BASS_WITHOUT_AVX512
constinit const Kernels kAvx512VnniKernels = {.isa = Isa::kAvx512Vnni, .name = "avx512vnni"};
constinit const AmxKernels kAmxKernels = {};
constinit const AmxKernels kEmulatedAmxKernels = {};
bool tiles_work() { return false; }
#endif

}  // namespace bass::cpu
