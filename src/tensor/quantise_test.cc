#include "tensor/quantise.h"

#include "support/hex.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace bass {
namespace {

TEST(QuantiseRowTest, GivesTheBitsOfTheGgufPackage) {
  std::ifstream file(std::string(BASS_TEST_DATA) + "/quantisation.json");
  const nlohmann::json goldens = nlohmann::json::parse(file);
  const std::vector<uint8_t> value_bytes = testing::from_hex(goldens["values"].get<std::string>());
  std::vector<float> values(value_bytes.size() / sizeof(float));
  std::memcpy(values.data(), value_bytes.data(), value_bytes.size());
  ASSERT_EQ(goldens["types"].size(), quantisable_types().size());
  for (const auto& golden : goldens["types"]) {
    const auto type = find_quantisable_type(golden["type"].get<std::string>());
    ASSERT_TRUE(type.has_value()) << golden["type"];
    const std::vector<uint8_t> expected = testing::from_hex(golden["blocks"].get<std::string>());
    std::vector<uint8_t> blocks(expected.size() + 1);  // blocks may lie at any address
    EXPECT_TRUE(quantise_row(*type, values.data(), static_cast<int>(values.size()), blocks.data() + 1));
    blocks.erase(blocks.begin());
    EXPECT_EQ(blocks, expected) << golden["type"];
  }
}

TEST(QuantiseRowTest, RefusesWhatDoesNotFit) {
  for (const DType type : quantisable_types()) {
    for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity(), -3e38F}) {
      std::vector<float> values(64, 1.0F);
      std::vector<uint8_t> blocks(2 * 34);
      EXPECT_TRUE(quantise_row(type, values.data(), 64, blocks.data()));
      values[40] = bad;
      EXPECT_FALSE(quantise_row(type, values.data(), 64, blocks.data())) << dtype_info(type).name << bad;
    }
  }
}

TEST(QuantiseRowTest, TypesAreFoundByName) {
  EXPECT_EQ(find_quantisable_type("q4_1"), DType::kQ4_1);
  EXPECT_EQ(find_quantisable_type("Q8_0"), DType::kQ8_0);
  EXPECT_EQ(find_quantisable_type("f16"), std::nullopt);
  EXPECT_EQ(find_quantisable_type(""), std::nullopt);
}

}  // namespace
}  // namespace bass
