// Dequantisation against the numbers of the gguf Python package (tests/goldens/make_dequantisation_goldens.py).
#include "tensor/dtype.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "support/hex.h"
#include "tensor/quant_format.h"

namespace bass {
namespace {

nlohmann::json read_goldens() {
  std::ifstream file(std::string(BASS_TEST_DATA) + "/dequantisation.json");
  return nlohmann::json::parse(file);
}

// Bits, so that zeros have a sign; every NaN is equal to every other.
std::vector<uint32_t> bits_of(const float* values, size_t n) {
  std::vector<uint32_t> bits;
  for (size_t i = 0; i < n; ++i)
    bits.push_back(values[i] != values[i] ? 0x7FC00000u : std::bit_cast<uint32_t>(values[i]));
  return bits;
}

TEST(DequantiseRowTest, GivesTheBitsOfTheGgufPackage) {
  const nlohmann::json goldens = read_goldens();
  ASSERT_EQ(goldens["types"].size(), 14u);
  for (const auto& golden : goldens["types"]) {
    const DTypeInfo* info = find_dtype_info(golden["number"].get<uint32_t>());
    ASSERT_NE(info, nullptr) << golden["type"];
    EXPECT_EQ(info->name, golden["type"].get<std::string>());
    const std::vector<uint8_t> blocks = testing::from_hex(golden["blocks"].get<std::string>());
    const std::vector<uint8_t> value_bytes = testing::from_hex(golden["values"].get<std::string>());
    std::vector<float> expected(value_bytes.size() / sizeof(float));
    std::memcpy(expected.data(), value_bytes.data(), value_bytes.size());
    ASSERT_EQ(blocks.size() / static_cast<size_t>(info->block_bytes) * static_cast<size_t>(info->block_len),
              expected.size());
    // Blocks may lie at any address.
    std::vector<uint8_t> moved(blocks.size() + 1);
    std::memcpy(moved.data() + 1, blocks.data(), blocks.size());
    std::vector<float> values(expected.size());
    dequantise_row(static_cast<DType>(golden["number"].get<uint32_t>()), moved.data() + 1,
                   static_cast<int>(values.size()), values.data());
    EXPECT_EQ(bits_of(values.data(), values.size()), bits_of(expected.data(), expected.size())) << info->name;
  }
}

// The packed layouts and the kernels rely on these ranges.
TEST(UnpackBlockTest, GivesQuantsOfTheFormatsWidth) {
  const auto goldens = read_goldens();
  for (const auto& golden : goldens["types"]) {
    const auto type = static_cast<DType>(golden["number"].get<uint32_t>());
    const DTypeInfo& info = dtype_info(type);
    if (info.block_len == 1) continue;  // a number
    const std::vector<uint8_t> blocks = testing::from_hex(golden["blocks"].get<std::string>());
    int highest = 0;
    for (size_t at = 0; at < blocks.size(); at += static_cast<size_t>(info.block_bytes)) {
      UnpackedBlock unpacked;
      unpack_block(type, blocks.data() + at, &unpacked);
      for (int i = 0; i < info.block_len; ++i) highest = std::max<int>(highest, unpacked.q[i]);
    }
    const int limit = (1 << quant_format(type).bits) - 1;
    EXPECT_LE(highest, limit) << info.name;
    EXPECT_GT(highest, limit / 2) << info.name;
  }
}

}  // namespace
}  // namespace bass
