// How GGUF files store the blocks of quantised rows. All are packed little-endian structs; d and m are f16 bits.
#pragma once

#include <cstdint>

namespace bass {

/// Elements of a quantisation group of activations, and of weights in most formats: so many neighbours along k share
/// one scale.
inline constexpr int kGroupLen = 32;
/// Elements of a block of the "K" formats, whose groups have small whole numbers as scales.
inline constexpr int kSuperBlockLen = 256;

#pragma pack(push, 1)
/// w = d q. q: [32] signed.
struct BlockQ8_0 {
  uint16_t d;
  int8_t q[32];
};
/// w = d (q - 8). Byte i holds element i in its low and element i + 16 in its high four bits.
struct BlockQ4_0 {
  uint16_t d;
  uint8_t q[16];
};
/// w = d q + m. Nibbles as in Q4_0.
struct BlockQ4_1 {
  uint16_t d;
  uint16_t m;
  uint8_t q[16];
};
/// w = d (q - 16). Nibbles as in Q4_0; bit i of `high` is the fifth bit of element i.
struct BlockQ5_0 {
  uint16_t d;
  uint8_t high[4];
  uint8_t q[16];
};
/// w = d q + m. Quants as in Q5_0.
struct BlockQ5_1 {
  uint16_t d;
  uint16_t m;
  uint8_t high[4];
  uint8_t q[16];
};
/// w = d kIq4NlValues[q]. Nibbles as in Q4_0.
struct BlockIQ4_NL {
  uint16_t d;
  uint8_t q[16];
};

// The K formats. A run of 128 elements is four groups of 32; where groups share bytes, later groups have higher bits.

/// w = (d s) q - (m t). Byte i of `scales`: s of the sixteen elements from 16 i on in its low, t in its high four bits.
/// q: 2 bits, 32 bytes for each run of 128 elements.
struct BlockQ2_K {
  uint8_t scales[16];
  uint8_t q[64];
  uint16_t d;
  uint16_t m;
};
/// w = (d s) (q - 4), a scale for 16 elements. q: 2 bits as in Q2_K, the third bit of group g is bit g of `high`.
/// scales: 6 bits, offset 32: low four bits as nibbles of the first 8 bytes, high two bits in the last 4 bytes.
struct BlockQ3_K {
  uint8_t high[32];
  uint8_t q[64];
  uint8_t scales[12];
  uint16_t d;
};
/// w = (d s) q - (m t), s and t for 32 elements, 6 bits each (quant_format.cc: unpack_k4_scales). q: 32 bytes for two
/// groups, the first in the low nibbles.
struct BlockQ4_K {
  uint16_t d;
  uint16_t m;
  uint8_t scales[12];
  uint8_t q[128];
};
/// As Q4_K; the fifth bit of group g is bit g of `high`.
struct BlockQ5_K {
  uint16_t d;
  uint16_t m;
  uint8_t scales[12];
  uint8_t high[32];
  uint8_t q[128];
};
/// w = (d s) (q - 32), a signed s for 16 elements. q: low nibbles of 128 elements in 64 bytes (the first 64 elements in
/// the low half), their high two bits in 32 bytes.
struct BlockQ6_K {
  uint8_t q[128];
  uint8_t high[64];
  int8_t scales[16];
  uint16_t d;
};
#pragma pack(pop)
static_assert(sizeof(BlockQ8_0) == 34 && sizeof(BlockQ4_0) == 18 && sizeof(BlockQ4_1) == 20);
static_assert(sizeof(BlockQ5_0) == 22 && sizeof(BlockQ5_1) == 24 && sizeof(BlockIQ4_NL) == 18);
static_assert(sizeof(BlockQ2_K) == 84 && sizeof(BlockQ3_K) == 110 && sizeof(BlockQ4_K) == 144);
static_assert(sizeof(BlockQ5_K) == 176 && sizeof(BlockQ6_K) == 210);

/// What the sixteen codes of IQ4_NL mean.
inline constexpr int8_t kIq4NlValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

}  // namespace bass
