#include "tensor/finite.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <vector>

namespace bass {
namespace {

constexpr std::array kTypes{DType::kF32,  DType::kF16,  DType::kBF16, DType::kQ8_0,  DType::kQ4_0,
                            DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ2_K,  DType::kQ3_K,
                            DType::kQ4_K, DType::kQ5_K, DType::kQ6_K, DType::kIQ4_NL};

/// The definition: what a row's numbers are.
bool is_finite_by_value(DType type, const std::vector<uint8_t>& row, int len) {
  std::vector<float> values(static_cast<size_t>(len));
  dequantise_row(type, row.data(), len, values.data());
  for (const float value : values) {
    if (!(value - value == 0)) return false;
  }
  return true;
}

// One bit pattern after another at each place of the second block: where the numbers become infinite or NaN, that is
// found. (An infinite scale times zero quants only is found too.)
TEST(FiniteTest, FindsEveryPlaceThatMatters) {
  for (const DType type : kTypes) {
    const DTypeInfo& info = dtype_info(type);
    const int len = 3 * info.block_len;
    std::vector<uint8_t> row(static_cast<size_t>(3 * info.block_bytes), 0x21);
    ASSERT_TRUE(is_finite_row(type, row.data(), len)) << info.name;
    int n_found = 0;
    for (size_t at = 0; at + 1 < row.size(); ++at) {
      std::vector<uint8_t> damaged = row;
      damaged[at] = 0xFF;
      damaged[at + 1] = 0xFF;
      const bool is_finite = is_finite_row(type, damaged.data(), len);
      n_found += is_finite ? 0 : 1;
      EXPECT_TRUE(!is_finite || is_finite_by_value(type, damaged, len)) << info.name << " byte " << at;
    }
    EXPECT_GT(n_found, 2) << info.name;
  }
}

}  // namespace
}  // namespace bass
