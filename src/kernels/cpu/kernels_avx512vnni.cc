// The kernels for AVX-512 F, BW, DQ, VL and VNNI.
#define BASS_SIMD_NAMESPACE avx512vnni

// The vectors come first; the kernels are written in terms of them.
// clang-format off
#include "kernels/cpu/simd_avx512.h"
#include "kernels/cpu/byte_dot_impl.h"
#include "kernels/cpu/math_impl.h"
#include "kernels/cpu/elementwise_impl.h"
#include "kernels/cpu/quantise_avx512_impl.h"
#include "kernels/cpu/matmul_impl.h"
#include "kernels/cpu/attention_impl.h"
#include "kernels/cpu/vocab_impl.h"
#include "kernels/cpu/machine_impl.h"
#include "kernels/cpu/kernel_table_impl.h"
// clang-format on
#include "kernels/cpu/kernel_tables.h"

namespace bass::cpu {

namespace avx512vnni {
namespace {

constexpr Kernels make_avx512vnni_kernels() {
  Kernels kernels = make_kernels(Isa::kAvx512Vnni, "avx512vnni");
  kernels.quantise = quantise_by_blocks;
  return kernels;
}

}  // namespace
}  // namespace avx512vnni

constinit const Kernels kAvx512VnniKernels = avx512vnni::make_avx512vnni_kernels();

}  // namespace bass::cpu
