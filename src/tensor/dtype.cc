#include "tensor/dtype.h"

#include <array>

#include "base/check.h"

namespace bass {
namespace {

struct Entry {
  DType type;
  DTypeInfo info;
};

constexpr std::array<Entry, 6> kTypes{{
    {DType::kF32, {"F32", 1, 4}},
    {DType::kF16, {"F16", 1, 2}},
    {DType::kBF16, {"BF16", 1, 2}},
    {DType::kQ8_0, {"Q8_0", 32, sizeof(BlockQ8_0)}},
    {DType::kQ4_0, {"Q4_0", 32, sizeof(BlockQ4_0)}},
    {DType::kQ4_1, {"Q4_1", 32, sizeof(BlockQ4_1)}},
}};

template <class Block, class Decode>
void dequantise_blocks(const void* row, int len, float* out, Decode decode) {
  const auto* blocks = static_cast<const Block*>(row);
  for (int b = 0; b < len / kGroupLen; ++b) decode(blocks[b], out + b * kGroupLen);
}

// value = scale * (nibble + offset) + minimum, in the order of elements that Q4_0 and Q4_1 share.
void decode_nibbles(const uint8_t* q, float scale, float offset, float minimum, float* out) {
  for (int i = 0; i < 16; ++i) {
    out[i] = scale * (static_cast<float>(q[i] & 15) + offset) + minimum;
    out[i + 16] = scale * (static_cast<float>(q[i] >> 4) + offset) + minimum;
  }
}

}  // namespace

const DTypeInfo* find_dtype_info(uint32_t gguf_type) {
  for (const Entry& entry : kTypes) {
    if (static_cast<uint32_t>(entry.type) == gguf_type) return &entry.info;
  }
  return nullptr;
}

const DTypeInfo& dtype_info(DType type) {
  const DTypeInfo* info = find_dtype_info(static_cast<uint32_t>(type));
  BASS_CHECK(info != nullptr);
  return *info;
}

void dequantise_row(DType type, const void* row, int len, float* out) {
  const auto* halves = static_cast<const uint16_t*>(row);
  switch (type) {
    case DType::kF32:
      std::memcpy(out, row, static_cast<size_t>(len) * sizeof(float));
      return;
    case DType::kF16:
      for (int i = 0; i < len; ++i) out[i] = f16_to_f32(halves[i]);
      return;
    case DType::kBF16:
      for (int i = 0; i < len; ++i) out[i] = bf16_to_f32(halves[i]);
      return;
    case DType::kQ8_0:
      dequantise_blocks<BlockQ8_0>(row, len, out, [](const BlockQ8_0& block, float* values) {
        for (int i = 0; i < kGroupLen; ++i) values[i] = f16_to_f32(block.d) * static_cast<float>(block.q[i]);
      });
      return;
    case DType::kQ4_0:
      dequantise_blocks<BlockQ4_0>(row, len, out, [](const BlockQ4_0& block, float* values) {
        decode_nibbles(block.q, f16_to_f32(block.d), -8.0f, 0.0f, values);
      });
      return;
    case DType::kQ4_1:
      dequantise_blocks<BlockQ4_1>(row, len, out, [](const BlockQ4_1& block, float* values) {
        decode_nibbles(block.q, f16_to_f32(block.d), 0.0f, f16_to_f32(block.m), values);
      });
      return;
  }
}

}  // namespace bass
