// The kernels for every processor.
#define BASS_SIMD_NAMESPACE scalar

// The vectors come first; the kernels are written in terms of them.
// clang-format off
#include "kernels/cpu/simd_scalar.h"
#include "kernels/cpu/byte_dot_impl.h"
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

constinit const Kernels kScalarKernels = scalar::make_kernels(Isa::kScalar, "scalar");

}  // namespace bass::cpu
