#include "tensor/finite.h"

#include <cstddef>
#include <cstring>
#include <utility>

namespace bass {
namespace {

/// Whether none of n numbers, `stride` bytes apart, has an exponent of ones only.
template <class Bits>
bool are_finite(const std::byte* at, int64_t n, size_t stride, Bits exponent) {
  bool has_other = false;
  for (int64_t i = 0; i < n; ++i) {
    Bits bits;
    std::memcpy(&bits, at + static_cast<size_t>(i) * stride, sizeof(bits));
    has_other |= (bits & exponent) == exponent;
  }
  return !has_other;
}

/// Where a block's two f16 numbers lie; the same place twice where it has one.
std::pair<size_t, size_t> scale_offsets(DType type) {
  switch (type) {
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ4_K:
    case DType::kQ5_K:
      return {0, sizeof(uint16_t)};
    case DType::kQ2_K:
      return {offsetof(BlockQ2_K, d), offsetof(BlockQ2_K, m)};
    case DType::kQ3_K:
      return {offsetof(BlockQ3_K, d), offsetof(BlockQ3_K, d)};
    case DType::kQ6_K:
      return {offsetof(BlockQ6_K, d), offsetof(BlockQ6_K, d)};
    default:
      return {0, 0};
  }
}

}  // namespace

bool is_finite_row(DType type, const void* row, int64_t len) {
  constexpr uint16_t kF16Exponent = 0x7C00;
  const auto* bytes = static_cast<const std::byte*>(row);
  if (type == DType::kF32) return are_finite<uint32_t>(bytes, len, sizeof(uint32_t), 0x7F800000U);
  if (type == DType::kF16) return are_finite<uint16_t>(bytes, len, sizeof(uint16_t), kF16Exponent);
  if (type == DType::kBF16) return are_finite<uint16_t>(bytes, len, sizeof(uint16_t), 0x7F80);
  const DTypeInfo& info = dtype_info(type);
  const auto [first, second] = scale_offsets(type);
  const int64_t n_blocks = len / info.block_len;
  const auto stride = static_cast<size_t>(info.block_bytes);
  return are_finite<uint16_t>(bytes + first, n_blocks, stride, kF16Exponent) &&
         (first == second || are_finite<uint16_t>(bytes + second, n_blocks, stride, kF16Exponent));
}

}  // namespace bass
