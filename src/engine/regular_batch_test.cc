#include "engine/regular_batch.h"

#include <gtest/gtest.h>

namespace bass {
namespace {

TEST(RegularBatch, ASequenceThatEndedEarlyStillSharesTheCost) {
  RegularBatch batch(8);
  EXPECT_EQ(batch.n_sequences(2, 0), 2);
  batch.end(60);  // while the other one is at 20
  EXPECT_EQ(batch.n_sequences(1, 20), 2);
  EXPECT_EQ(batch.n_sequences(1, 59), 2);
  EXPECT_EQ(batch.n_sequences(1, 60), 1);
  EXPECT_EQ(batch.n_sequences(1, 61), 1);
}

TEST(RegularBatch, RegularDecodingIsAsItIs) {
  RegularBatch batch(8);
  EXPECT_EQ(batch.n_sequences(3, 9), 3);
  batch.end(10);  // with that step
  EXPECT_EQ(batch.start(), 10) << "a new one begins where the others are";
  EXPECT_EQ(batch.n_sequences(3, 10), 3);
  EXPECT_EQ(batch.n_sequences(3, 11), 3);
}

TEST(RegularBatch, WhoWaitedTakesAPlaceWhenOneIsFree) {
  RegularBatch batch(2);
  EXPECT_EQ(batch.n_sequences(2, 20), 2);
  batch.end(60);
  EXPECT_EQ(batch.start(), 60);
  EXPECT_EQ(batch.n_sequences(2, 21), 2) << "never more than there is room for";
}

}  // namespace
}  // namespace bass
