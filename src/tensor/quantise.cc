#include "tensor/quantise.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "base/check.h"
#include "tensor/quant_format.h"

namespace bass {
namespace {

constexpr std::array kQuantisableTypes{DType::kQ8_0, DType::kQ5_1, DType::kQ5_0, DType::kQ4_1, DType::kQ4_0};

bool is_finite_f16(uint16_t bits) { return (bits & 0x7C00u) != 0x7C00u; }

/// 1 / d; 0 where d is so small that the block counts as zeros.
float inverse_of(float d) {
  const float inverse = 1.0F / d;
  return std::isfinite(inverse) ? inverse : 0.0F;
}

/// The element of largest magnitude, the first of equals, with its sign.
float extreme_of(const float* x) {
  return *std::max_element(x, x + kGroupLen, [](float a, float b) { return std::fabs(a) < std::fabs(b); });
}

/// q: [kGroupLen], of `bits` bits. The element of largest magnitude gets the quant -2^(bits-1), whose positive
/// counterpart the format does not have.
uint16_t quantise_signed(const float* x, int bits, uint8_t* q) {
  const int half = 1 << (bits - 1);
  const float d = extreme_of(x) / static_cast<float>(-half);
  const float inverse = inverse_of(d);
  for (int i = 0; i < kGroupLen; ++i) {
    const float shifted = x[i] * inverse + (static_cast<float>(half) + 0.5F);
    q[i] = static_cast<uint8_t>(std::clamp(static_cast<int>(shifted), 0, 2 * half - 1));
  }
  return f32_to_f16(d);
}

/// The same between the block's minimum and maximum.
uint16_t quantise_above_minimum(const float* x, int bits, uint8_t* q, uint16_t* minimum) {
  const int highest = (1 << bits) - 1;
  const auto [low, high] = std::minmax_element(x, x + kGroupLen);
  const float d = (*high - *low) / static_cast<float>(highest);
  const float inverse = inverse_of(d);
  for (int i = 0; i < kGroupLen; ++i) {
    q[i] = static_cast<uint8_t>(std::clamp(static_cast<int>(std::floor((x[i] - *low) * inverse + 0.5F)), 0, highest));
  }
  *minimum = f32_to_f16(*low);
  return f32_to_f16(d);
}

void pack_nibbles(const uint8_t* q, uint8_t* out) {
  for (int i = 0; i < kHalfGroup; ++i) out[i] = static_cast<uint8_t>((q[i] & 15) | (q[i + kHalfGroup] & 15) << 4);
}

void pack_fifth_bits(const uint8_t* q, uint8_t* out) {
  uint32_t bits = 0;
  for (int i = 0; i < kGroupLen; ++i) bits |= static_cast<uint32_t>(q[i] >> 4) << i;
  std::memcpy(out, &bits, sizeof(bits));
}

bool quantise(const float* x, BlockQ8_0* block) {
  const float d = std::fabs(extreme_of(x)) / 127.0F;
  const float inverse = inverse_of(d);
  block->d = f32_to_f16(d);
  for (int i = 0; i < kGroupLen; ++i) block->q[i] = static_cast<int8_t>(std::round(x[i] * inverse));
  return is_finite_f16(block->d);
}

bool quantise(const float* x, BlockQ4_0* block) {
  uint8_t q[kGroupLen];
  block->d = quantise_signed(x, 4, q);
  pack_nibbles(q, block->q);
  return is_finite_f16(block->d);
}

bool quantise(const float* x, BlockQ5_0* block) {
  uint8_t q[kGroupLen];
  block->d = quantise_signed(x, 5, q);
  pack_fifth_bits(q, block->high);
  pack_nibbles(q, block->q);
  return is_finite_f16(block->d);
}

bool quantise(const float* x, BlockQ4_1* block) {
  uint8_t q[kGroupLen];
  uint16_t minimum = 0;
  block->d = quantise_above_minimum(x, 4, q, &minimum);
  block->m = minimum;
  pack_nibbles(q, block->q);
  return is_finite_f16(block->d) && is_finite_f16(minimum);
}

bool quantise(const float* x, BlockQ5_1* block) {
  uint8_t q[kGroupLen];
  uint16_t minimum = 0;
  block->d = quantise_above_minimum(x, 5, q, &minimum);
  block->m = minimum;
  pack_fifth_bits(q, block->high);
  pack_nibbles(q, block->q);
  return is_finite_f16(block->d) && is_finite_f16(minimum);
}

template <class Block>
bool quantise_blocks(const float* row, int len, std::byte* out) {
  for (int i = 0; i < len; i += kGroupLen, out += sizeof(Block)) {
    for (int k = 0; k < kGroupLen; ++k) {
      if (!std::isfinite(row[i + k])) return false;
    }
    Block block;
    if (!quantise(row + i, &block)) return false;
    std::memcpy(out, &block, sizeof(Block));
  }
  return true;
}

}  // namespace

std::span<const DType> quantisable_types() { return kQuantisableTypes; }

std::optional<DType> find_quantisable_type(std::string_view name) {
  const auto is_name = [name](DType type) {
    return std::ranges::equal(dtype_info(type).name, name,
                              [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); });
  };
  const auto* const found = std::ranges::find_if(kQuantisableTypes, is_name);
  return found == kQuantisableTypes.end() ? std::nullopt : std::optional(*found);
}

bool quantise_row(DType type, const float* row, int len, void* out) {
  auto* blocks = static_cast<std::byte*>(out);
  switch (type) {
    case DType::kQ8_0:
      return quantise_blocks<BlockQ8_0>(row, len, blocks);
    case DType::kQ5_1:
      return quantise_blocks<BlockQ5_1>(row, len, blocks);
    case DType::kQ5_0:
      return quantise_blocks<BlockQ5_0>(row, len, blocks);
    case DType::kQ4_1:
      return quantise_blocks<BlockQ4_1>(row, len, blocks);
    case DType::kQ4_0:
      return quantise_blocks<BlockQ4_0>(row, len, blocks);
    default:
      break;
  }
  BASS_CHECK(false && "not one of quantisable_types");
  return false;
}

}  // namespace bass
