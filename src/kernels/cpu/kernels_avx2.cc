// The kernels for AVX2, FMA and F16C.
#define BASS_SIMD_NAMESPACE avx2

// The vectors come first; the kernels are written in terms of them.
// clang-format off
#include "kernels/cpu/simd_avx2.h"
#include "kernels/cpu/madd_dot_impl.h"
#include "kernels/cpu/math_impl.h"
#include "kernels/cpu/elementwise_impl.h"
#include "kernels/cpu/quantise_impl.h"
#include "kernels/cpu/matmul_impl.h"
#include "kernels/cpu/attention_impl.h"
#include "kernels/cpu/vocab_impl.h"
#include "kernels/cpu/machine_impl.h"
#include "kernels/cpu/kernel_table_impl.h"
// clang-format on
#include "kernels/cpu/kernel_tables.h"

namespace bass::cpu {

constinit const Kernels kAvx2Kernels = avx2::make_kernels(Isa::kAvx2, "avx2");

}  // namespace bass::cpu
