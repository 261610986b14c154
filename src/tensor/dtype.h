// Element types of tensors in files.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "tensor/quant_blocks.h"

namespace bass {

/// Values are GGUF's numbers of the same types.
enum class DType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kIQ4_NL = 20,
  kBF16 = 30,
};

/// Elements and bytes of one block: the unit in which a row is stored.
struct DTypeInfo {
  std::string_view name;
  int block_len;
  int block_bytes;
};

/// nullptr for a type that BASS cannot read.
const DTypeInfo* find_dtype_info(uint32_t gguf_type);
const DTypeInfo& dtype_info(DType type);
/// "F32, F16, ...": the types that BASS reads, for messages.
std::string readable_dtypes();

/// IEEE half precision to float, exact (subnormals included).
constexpr float f16_to_f32(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 31u;
  const uint32_t mantissa = bits & 1023u;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000u | mantissa << 13);
  if (exponent == 0)
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(static_cast<float>(mantissa) * 0x1p-24f));
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

/// Float to IEEE half precision, round to nearest even, as the hardware does.
constexpr uint16_t f32_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return static_cast<uint16_t>(sign | 0x7E00u | (magnitude >> 13 & 0x3FFu));
  if (magnitude >= 0x477FF000u) return static_cast<uint16_t>(sign | 0x7C00u);
  if (magnitude < 0x38800000u) {  // subnormal half: let float addition do the rounding
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3F000000u));
  }
  const uint32_t rounded = magnitude + 0xFFFu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | (rounded - 0x38000000u) >> 13);
}

constexpr float bf16_to_f32(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

/// Dequantises one row of `len` elements (a multiple of the block length) of any type, to the bits that the `gguf`
/// Python package gives. row: no alignment. out: [len]
void dequantise_row(DType type, const void* row, int len, float* out);

}  // namespace bass
