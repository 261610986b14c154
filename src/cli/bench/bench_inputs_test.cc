// What the measurements are given: numbers that were typed, and made-up lengths.
#include <gmock/gmock.h>

#include <numeric>

#include "cli/bench/attention_bench.h"
#include "cli/number_lists.h"

namespace bass {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(NumberList, ReadsWholeNumbers) {
  EXPECT_THAT(parse_list("--batch", "1,8,32", 32).value(), ElementsAre(1, 8, 32));
  EXPECT_THAT(parse_list("--batch", "7", 32).value(), ElementsAre(7));
}

TEST(NumberList, RefusesEverythingElse) {
  for (const char* text : {"", ",", "1,", ",1", "0", "33", "1.5", "-1", "+1", "1 ,2", "x", "99999999999"}) {
    const auto list = parse_list("--batch", text, 32);
    ASSERT_FALSE(list.ok()) << text;
    EXPECT_THAT(list.status().message(), HasSubstr("must be whole numbers from 1 to 32"));
  }
}

TEST(Lengths, HaveTheMeanTheyAreAskedFor) {
  constexpr int kBatch = 32, kMean = 512;
  for (const LengthKind kind : kLengthKinds) {
    const std::vector<int> lengths = make_lengths(kind, kBatch, kMean, 1);
    ASSERT_EQ(lengths.size(), kBatch);
    const double mean = std::accumulate(lengths.begin(), lengths.end(), 0.0) / kBatch;
    EXPECT_NEAR(mean, kMean, 0.02 * kMean) << length_kind_name(kind);
  }
}

TEST(Lengths, AreTheDistributions) {
  EXPECT_THAT(make_lengths(LengthKind::kUniform, 4, 100, 1), ElementsAre(25, 75, 125, 175));
  EXPECT_THAT(make_lengths(LengthKind::kBimodal, 4, 100, 1), ElementsAre(25, 25, 175, 175));
  EXPECT_THAT(make_lengths(LengthKind::kExponential, 2, 100, 1), ElementsAre(29, 139));
  EXPECT_THAT(make_lengths(LengthKind::kUniform, 2, 4, 5), ElementsAre(5, 6));  // at least the queries
}

// Every layout is given the same work, and padding is not part of it.
TEST(AttentionBench, CountsWhatHasToBeReadAndComputed) {
  constexpr AttentionShape kShape{8, 2, 16};
  constexpr int kQueries = 3;
  const std::vector<int> lengths{10, 100};
  ThreadTeam team(2);
  const auto bench = make_cpu_attention_bench(kShape, {2, kQueries, 100, 200}, &team);
  ASSERT_TRUE(bench.ok());
  const AttentionKind kinds[] = {AttentionKind::kPad, AttentionKind::kSplit, AttentionKind::kFused};
  const Result<std::vector<AttentionTiming>> timings = bench.value()->measure(kinds, lengths, kQueries);
  ASSERT_TRUE(timings.ok());
  ASSERT_EQ(timings.value().size(), 3);
  double operations = 0;
  for (const int length : lengths) {
    for (int seen = length - kQueries + 1; seen <= length; ++seen) {
      operations += 4.0 * kShape.n_heads * kShape.head_dim * seen;
    }
  }
  for (const AttentionTiming& timing : timings.value()) {
    EXPECT_GT(timing.median_s, 0);
    EXPECT_DOUBLE_EQ(timing.work.total_operations(), operations);
    EXPECT_DOUBLE_EQ(timing.work.bytes, 110.0 * 2 * kShape.n_kv_heads * (2 * kShape.head_dim + 4));  // int16, a scale
  }
}

}  // namespace
}  // namespace bass
