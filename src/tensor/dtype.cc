#include "tensor/dtype.h"

#include <array>
#include <cstddef>

#include "base/check.h"
#include "tensor/quant_format.h"

namespace bass {
namespace {

struct Entry {
  DType type;
  DTypeInfo info;
};

constexpr std::array<Entry, 14> kTypes{{
    {DType::kF32, {"F32", 1, 4}},
    {DType::kF16, {"F16", 1, 2}},
    {DType::kBF16, {"BF16", 1, 2}},
    {DType::kQ8_0, {"Q8_0", kGroupLen, sizeof(BlockQ8_0)}},
    {DType::kQ4_0, {"Q4_0", kGroupLen, sizeof(BlockQ4_0)}},
    {DType::kQ4_1, {"Q4_1", kGroupLen, sizeof(BlockQ4_1)}},
    {DType::kQ5_0, {"Q5_0", kGroupLen, sizeof(BlockQ5_0)}},
    {DType::kQ5_1, {"Q5_1", kGroupLen, sizeof(BlockQ5_1)}},
    {DType::kQ2_K, {"Q2_K", kSuperBlockLen, sizeof(BlockQ2_K)}},
    {DType::kQ3_K, {"Q3_K", kSuperBlockLen, sizeof(BlockQ3_K)}},
    {DType::kQ4_K, {"Q4_K", kSuperBlockLen, sizeof(BlockQ4_K)}},
    {DType::kQ5_K, {"Q5_K", kSuperBlockLen, sizeof(BlockQ5_K)}},
    {DType::kQ6_K, {"Q6_K", kSuperBlockLen, sizeof(BlockQ6_K)}},
    {DType::kIQ4_NL, {"IQ4_NL", kGroupLen, sizeof(BlockIQ4_NL)}},
}};

void dequantise_blocks(DType type, const void* row, int len, float* out) {
  const DTypeInfo& info = dtype_info(type);
  const QuantFormat format = quant_format(type);
  const auto* block = static_cast<const std::byte*>(row);
  UnpackedBlock unpacked;
  for (int begin = 0; begin < len; begin += info.block_len, block += info.block_bytes) {
    unpack_block(type, block, &unpacked);
    dequantise_block(format, unpacked, info.block_len, out + begin);
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

std::string readable_dtypes() {
  std::string names;
  for (const Entry& entry : kTypes) names += (names.empty() ? "" : ", ") + std::string(entry.info.name);
  return names;
}

void dequantise_row(DType type, const void* row, int len, float* out) {
  const auto half = [row](int i) {  // safetensors may lie at odd addresses
    uint16_t bits;
    std::memcpy(&bits, static_cast<const std::byte*>(row) + static_cast<size_t>(i) * sizeof(bits), sizeof(bits));
    return bits;
  };
  switch (type) {
    case DType::kF32:
      std::memcpy(out, row, static_cast<size_t>(len) * sizeof(float));
      return;
    case DType::kF16:
      for (int i = 0; i < len; ++i) out[i] = f16_to_f32(half(i));
      return;
    case DType::kBF16:
      for (int i = 0; i < len; ++i) out[i] = bf16_to_f32(half(i));
      return;
    default:
      dequantise_blocks(type, row, len, out);
  }
}

}  // namespace bass
