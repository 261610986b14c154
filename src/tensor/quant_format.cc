#include "tensor/quant_format.h"

#include <cstring>

#include "base/check.h"

namespace bass {
namespace {

constexpr int kRunLen = 128;  // elements of a K format whose groups lie in the same bytes

template <class Block>
Block load_block(const void* from) {
  Block block;
  std::memcpy(&block, from, sizeof(Block));
  return block;
}

// Sixteen bytes to 32 nibbles, in the order of Q4_0.
void unpack_nibbles(const uint8_t* bytes, uint8_t* q) {
  for (int i = 0; i < kHalfGroup; ++i) {
    q[i] = bytes[i] & 15;
    q[i + kHalfGroup] = bytes[i] >> 4;
  }
}

void add_fifth_bits(const uint8_t* high, uint8_t* q) {
  uint32_t bits;
  std::memcpy(&bits, high, sizeof(bits));
  for (int i = 0; i < kGroupLen; ++i) q[i] |= static_cast<uint8_t>((bits >> i & 1u) << 4);
}

// Bits [shift, shift + n_bits) of the 32 bytes of a group, put at `to` of its quants.
void add_bits(const uint8_t* bytes, int shift, int n_bits, int to, uint8_t* q) {
  const int mask = (1 << n_bits) - 1;
  for (int i = 0; i < kGroupLen; ++i) q[i] |= static_cast<uint8_t>((bytes[i] >> shift & mask) << to);
}

// Four groups from the pairs of bits of 32 bytes, run by run: Q2_K and Q3_K.
void unpack_pairs(const uint8_t* bytes, uint8_t* q) {
  for (int g = 0; g < kSuperBlockLen / kGroupLen; ++g) {
    add_bits(bytes + g / 4 * kGroupLen, g % 4 * 2, 2, 0, q + g * kGroupLen);
  }
}

// Q4_K's and Q5_K's: the first four of each kind are the low six bits of bytes 0-3 and 4-7; the last four have their
// low four bits in the nibbles of bytes 8-11 and their high two above those six.
void unpack_k4_scales(const uint8_t* bytes, int8_t* scales, int8_t* minima) {
  for (int i = 0; i < 4; ++i) {
    scales[i] = static_cast<int8_t>(bytes[i] & 63);
    minima[i] = static_cast<int8_t>(bytes[i + 4] & 63);
    scales[i + 4] = static_cast<int8_t>((bytes[i + 8] & 15) | (bytes[i] >> 6 << 4));
    minima[i + 4] = static_cast<int8_t>((bytes[i + 8] >> 4) | (bytes[i + 4] >> 6 << 4));
  }
}

void unpack_k4_quants(const uint8_t* bytes, uint8_t* q) {
  for (int g = 0; g < kSuperBlockLen / kGroupLen; ++g) {
    add_bits(bytes + g / 2 * kGroupLen, g % 2 * 4, 4, 0, q + g * kGroupLen);
  }
}

void unpack(const BlockQ8_0& block, UnpackedBlock* out) {
  for (int i = 0; i < kGroupLen; ++i) out->q[i] = static_cast<uint8_t>(block.q[i] + 128);
}

void unpack(const BlockQ4_0& block, UnpackedBlock* out) { unpack_nibbles(block.q, out->q); }
void unpack(const BlockQ4_1& block, UnpackedBlock* out) { unpack_nibbles(block.q, out->q); }

void unpack(const BlockIQ4_NL& block, UnpackedBlock* out) {
  unpack_nibbles(block.q, out->q);
  for (int i = 0; i < kGroupLen; ++i) out->q[i] = static_cast<uint8_t>(kIq4NlValues[out->q[i]] + 128);
}

void unpack(const BlockQ5_0& block, UnpackedBlock* out) {
  unpack_nibbles(block.q, out->q);
  add_fifth_bits(block.high, out->q);
}
void unpack(const BlockQ5_1& block, UnpackedBlock* out) {
  unpack_nibbles(block.q, out->q);
  add_fifth_bits(block.high, out->q);
}

void unpack(const BlockQ2_K& block, UnpackedBlock* out) {
  unpack_pairs(block.q, out->q);
  for (int i = 0; i < 16; ++i) {
    out->scales[i] = static_cast<int8_t>(block.scales[i] & 15);
    out->minima[i] = static_cast<int8_t>(block.scales[i] >> 4);
  }
}

void unpack(const BlockQ3_K& block, UnpackedBlock* out) {
  unpack_pairs(block.q, out->q);
  for (int g = 0; g < kSuperBlockLen / kGroupLen; ++g) add_bits(block.high, g, 1, 2, out->q + g * kGroupLen);
  for (int i = 0; i < 16; ++i) {
    const int low = block.scales[i % 8] >> (i / 8 * 4) & 15;
    const int high = block.scales[8 + i % 4] >> (i / 4 * 2) & 3;
    out->scales[i] = static_cast<int8_t>((low | high << 4) - 32);
  }
}

void unpack(const BlockQ4_K& block, UnpackedBlock* out) {
  unpack_k4_quants(block.q, out->q);
  unpack_k4_scales(block.scales, out->scales, out->minima);
}

void unpack(const BlockQ5_K& block, UnpackedBlock* out) {
  unpack_k4_quants(block.q, out->q);
  for (int g = 0; g < kSuperBlockLen / kGroupLen; ++g) add_bits(block.high, g, 1, 4, out->q + g * kGroupLen);
  unpack_k4_scales(block.scales, out->scales, out->minima);
}

void unpack(const BlockQ6_K& block, UnpackedBlock* out) {
  for (int g = 0; g < kSuperBlockLen / kGroupLen; ++g) {
    const int run = g * kGroupLen / kRunLen;
    uint8_t* q = out->q + g * kGroupLen;
    add_bits(block.q + run * 64 + g % 2 * kGroupLen, g % 4 / 2 * 4, 4, 0, q);
    add_bits(block.high + run * kGroupLen, g % 4 * 2, 2, 4, q);
  }
  std::memcpy(out->scales, block.scales, sizeof(block.scales));
}

template <class Block>
void unpack_as(const void* from, UnpackedBlock* out) {
  const auto block = load_block<Block>(from);
  out->d = block.d;
  if constexpr (requires { block.m; }) out->m = block.m;
  if constexpr (requires { block.scales; }) std::memset(out->q, 0, sizeof(out->q));  // its parts are added
  unpack(block, out);
}

}  // namespace

void unpack_block(DType type, const void* block, UnpackedBlock* out) {
  switch (type) {
    case DType::kQ8_0:
      return unpack_as<BlockQ8_0>(block, out);
    case DType::kQ4_0:
      return unpack_as<BlockQ4_0>(block, out);
    case DType::kQ4_1:
      return unpack_as<BlockQ4_1>(block, out);
    case DType::kQ5_0:
      return unpack_as<BlockQ5_0>(block, out);
    case DType::kQ5_1:
      return unpack_as<BlockQ5_1>(block, out);
    case DType::kIQ4_NL:
      return unpack_as<BlockIQ4_NL>(block, out);
    case DType::kQ2_K:
      return unpack_as<BlockQ2_K>(block, out);
    case DType::kQ3_K:
      return unpack_as<BlockQ3_K>(block, out);
    case DType::kQ4_K:
      return unpack_as<BlockQ4_K>(block, out);
    case DType::kQ5_K:
      return unpack_as<BlockQ5_K>(block, out);
    case DType::kQ6_K:
      return unpack_as<BlockQ6_K>(block, out);
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      break;
  }
  BASS_CHECK(false);
}

void dequantise_block(const QuantFormat& format, const UnpackedBlock& block, int block_len, float* out) {
  for (int begin = 0; begin < block_len; begin += format.group_len) {
    const int g = begin / format.group_len;
    const float scale = block.scale(format, g);
    // Adding -0 changes no number, not even the sign of a zero.
    const float minimum = format.has_minimum ? block.minimum(format, g) : -0.0f;
    for (int i = begin; i < begin + format.group_len; ++i) {
      out[i] = scale * static_cast<float>(block.q[i] - format.offset) + minimum;
    }
  }
}

}  // namespace bass
