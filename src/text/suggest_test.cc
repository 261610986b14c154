#include "text/suggest.h"

#include <gtest/gtest.h>

#include <vector>

namespace bass {
namespace {

TEST(SuggestTest, CountsEdits) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("abc", ""), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("ab", "ba"), 1);
}

TEST(SuggestTest, SuggestsWhatWasMeant) {
  const std::vector<std::string> flags{"--temperature", "--top-p", "--top-k", "--threads", "--max-tokens"};
  EXPECT_EQ(nearest("--temprature", flags), "--temperature");
  EXPECT_EQ(nearest("--temp", flags), "--temperature");
  EXPECT_EQ(nearest("--max_tokens", flags), "--max-tokens");
  EXPECT_EQ(nearest("--topk", flags), "--top-k");
  EXPECT_EQ(nearest("--zzzzzz", flags), "");
  EXPECT_EQ(nearest("x", {}), "");
}

TEST(SuggestTest, CaseDoesNotCount) {
  const std::vector<std::string> flags{"--model", "-m", "--temperature", "--n", "-n"};
  EXPECT_EQ(nearest("--TEMPERATURE", flags), "--temperature");
  EXPECT_EQ(nearest("--Tempratur", flags), "--temperature");
  EXPECT_EQ(nearest("-M", flags), "-m");
  EXPECT_EQ(nearest("-N", flags), "-n");
  EXPECT_EQ(nearest("--N", flags), "--n");
}

TEST(SuggestTest, ALetterMeansOnlyThatLetter) {
  const std::vector<std::string> names{"-m", "-p", "n", "--n", "id"};
  EXPECT_EQ(nearest("-x", names), "");
  EXPECT_EQ(nearest("k", names), "");
  EXPECT_EQ(nearest("nn", names), "");
  EXPECT_EQ(nearest("--n-samples", names), "");
  EXPECT_EQ(nearest("--m", names), "-m");
}

TEST(SuggestTest, AWordTooManyOrTooFewIsASmallSlip) {
  const std::vector<std::string> flags{
      "--max-step-tokens", "--max-tokens", "--draft-length", "--save", "--seed", "--stop"};
  EXPECT_EQ(nearest("--max-new-tokens", flags), "--max-tokens");
  EXPECT_EQ(nearest("max_new_tokens", flags), "--max-tokens");
  EXPECT_EQ(nearest("--length", flags), "--draft-length");
  EXPECT_EQ(nearest("--samples", flags), "");
}

}  // namespace
}  // namespace bass
