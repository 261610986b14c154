// Products that follow one another on a thread keep its tiles (AMX), and give them back behind the last.
#include "kernels/cpu/kernels_testing.h"

namespace bass::cpu {
namespace {

using testing::Activations;
using testing::FileMatrix;
using testing::PackedCopy;
using testing::product;
using testing::random_floats;
using testing::same_bits;

constexpr int kCols = 512;
constexpr int kRows = 40;

// Whether this thread's tiles are configured: bit 17 of what XINUSE says is not in its initial state.
bool has_configured_tiles() {
#if defined(__x86_64__)
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1));
  return (low >> 17 & 1) != 0;
#else
  return false;
#endif
}

class ProductScopeTest : public ::testing::TestWithParam<const Kernels*> {};

// Formats whose groups have one part and two need differently configured tiles; few rows need none.
TEST_P(ProductScopeTest, ChangesNoProduct) {
  const Kernels& kernels = *GetParam();
  std::mt19937 rng(11);
  const std::vector<float> values = random_floats(size_t{kRows} * kCols, rng);
  const FileMatrix files[] = {
      {DType::kQ4_1, 48, kCols, rng}, {DType::kQ6_K, 48, kCols, rng}, {DType::kQ8_0, 48, kCols, rng}};
  const Activations x(kernels, values.data(), kRows, kCols, 1);
  std::vector<std::vector<float>> alone, together;
  const auto all_products = [&](std::vector<std::vector<float>>* out) {
    for (const int n_rows : {kRows, 3, 17}) {
      for (const FileMatrix& file : files) out->push_back(product(kernels, PackedCopy(file).matrix, x, n_rows));
    }
  };
  all_products(&alone);
  {
    const ProductScope scope(kernels);
    all_products(&together);
  }
  all_products(&together);  // and behind it
  for (size_t i = 0; i < together.size(); ++i) EXPECT_TRUE(same_bits(together[i], alone[i % alone.size()])) << i;
}

INSTANTIATE_TEST_SUITE_P(Isa, ProductScopeTest, ::testing::ValuesIn(testing::kernels_and_emulated_tiles()),
                         testing::isa_name);

TEST(ProductScope, KeepsTilesAndGivesThemBack) {
  const Kernels* kernels = find_kernels(Isa::kAvx512Amx);
  if (kernels == nullptr) GTEST_SKIP() << "this processor has no tiles";
  std::mt19937 rng(11);
  const std::vector<float> values = random_floats(size_t{kRows} * kCols, rng);
  const PackedCopy weights(FileMatrix(DType::kQ4_1, 48, kCols, rng));
  const Activations x(*kernels, values.data(), kRows, kCols, 1);
  product(*kernels, weights.matrix, x, kRows);
  EXPECT_FALSE(has_configured_tiles()) << "outside of a scope each product releases them";
  {
    const ProductScope scope(*kernels);
    EXPECT_FALSE(has_configured_tiles()) << "nobody has needed them";
    product(*kernels, weights.matrix, x, kRows);
    EXPECT_TRUE(has_configured_tiles());
    product(*kernels, weights.matrix, x, 1);
    EXPECT_TRUE(has_configured_tiles()) << "few rows leave them as they are";
  }
  EXPECT_FALSE(has_configured_tiles());
  product(*kernels, weights.matrix, x, kRows);
  EXPECT_FALSE(has_configured_tiles()) << "as before";
}

}  // namespace
}  // namespace bass::cpu
