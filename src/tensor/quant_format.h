// What the quantised formats have in common: every one means w = scale (q - offset) + minimum, group by group.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace bass {

constexpr int kHalfGroup = kGroupLen / 2;

/// A quantised format, apart from where its bits lie.
struct QuantFormat {
  int bits = 0;               // of an unsigned quant
  int offset = 0;             // what makes it a signed one: q - offset
  int group_len = kGroupLen;  // elements that share a scale: kGroupLen or half of it
  bool has_minimum = false;
  bool is_k = false;  // a group's scale is a whole number times one f16 for kSuperBlockLen elements (minima likewise)
};

// Internal linkage: files that are compiled for an instruction set use it too and must not share code with others.
static constexpr QuantFormat quant_format(DType type) {
  switch (type) {
    case DType::kQ4_0:
      return {.bits = 4, .offset = 8};
    case DType::kQ4_1:
      return {.bits = 4, .has_minimum = true};
    case DType::kQ5_0:
      return {.bits = 5, .offset = 16};
    case DType::kQ5_1:
      return {.bits = 5, .has_minimum = true};
    case DType::kQ8_0:
    case DType::kIQ4_NL:  // as numbers, not as codes
      return {.bits = 8, .offset = 128};
    case DType::kQ2_K:
      return {.bits = 2, .group_len = kHalfGroup, .has_minimum = true, .is_k = true};
    case DType::kQ3_K:
      return {.bits = 3, .offset = 4, .group_len = kHalfGroup, .is_k = true};
    case DType::kQ4_K:
      return {.bits = 4, .has_minimum = true, .is_k = true};
    case DType::kQ5_K:
      return {.bits = 5, .has_minimum = true, .is_k = true};
    case DType::kQ6_K:
      return {.bits = 6, .offset = 32, .group_len = kHalfGroup, .is_k = true};
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      break;
  }
  return {};  // not quantised
}

/// One block of any quantised format, its numbers in the order of elements and groups.
struct UnpackedBlock {
  uint8_t q[kSuperBlockLen];  // [block_len]
  uint16_t d;                 // f16 bits
  uint16_t m;                 // f16 bits; formats with minima only
  int8_t scales[16];          // [block_len / group_len]; K formats only
  int8_t minima[16];          // the same, with minima only

  /// The factor of group g: d, in the K formats fl(d scales[g]).
  [[nodiscard]] float scale(const QuantFormat& format, int g) const {
    return format.is_k ? f16_to_f32(d) * static_cast<float>(scales[g]) : f16_to_f32(d);
  }
  /// What is added to group g: m, in the K formats -fl(m minima[g]). Formats with minima only.
  [[nodiscard]] float minimum(const QuantFormat& format, int g) const {
    return format.is_k ? -(f16_to_f32(m) * static_cast<float>(minima[g])) : f16_to_f32(m);
  }
};

/// block: one block in the file's layout, no alignment.
void unpack_block(DType type, const void* block, UnpackedBlock* out);

/// The numbers of a block. out: [block_len]
void dequantise_block(const QuantFormat& format, const UnpackedBlock& block, int block_len, float* out);

}  // namespace bass
