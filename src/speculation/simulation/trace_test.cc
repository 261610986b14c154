#include "speculation/simulation/trace.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <random>

namespace bass {
namespace {

constexpr size_t kVocab = 3;
constexpr int kLen = 3;
using Row = std::array<double, kVocab>;

// Two models whose rows depend on the last token.
Row main_row(int last) {
  constexpr std::array<Row, kVocab> kRows{{{.5, .3, .2}, {.1, .2, .7}, {1. / 3, 1. / 3, 1. / 3}}};
  return kRows[static_cast<size_t>(last)];
}
Row draft_row(int last) {
  constexpr std::array<Row, kVocab> kRows{{{.2, .2, .6}, {.3, .3, .4}, {.6, .3, .1}}};
  return kRows[static_cast<size_t>(last)];
}

// What a trace holds of the drafts x_1 .. x_n, by the formulas of block.h.
std::vector<DraftEvidence> evidence_of(const std::vector<int>& drafts, bool has_wrong_h = false) {
  std::vector<DraftEvidence> evidence;
  double joint = 1;
  int last = 0;
  for (const int token : drafts) {
    const Row p = main_row(last), q = draft_row(last);
    double residual = 0, overlap = 0;
    for (size_t x = 0; x < kVocab; ++x) {
      residual += std::max((has_wrong_h ? 1 : joint) * p[x] - q[x], 0.0);
      overlap += std::min(p[x], q[x]);
    }
    if (!evidence.empty()) evidence.back().block = static_cast<float>(block_acceptance(joint, residual));
    const double p_x = p[static_cast<size_t>(token)], q_x = q[static_cast<size_t>(token)];
    joint = next_joint(joint, p_x, q_x);
    evidence.push_back(
        {static_cast<float>(p_x), static_cast<float>(q_x), static_cast<float>(overlap), static_cast<float>(joint)});
    last = token;
  }
  return evidence;
}

// The mean over all drafts of kLen tokens, each with its probability.
double mean_over_drafts(const std::function<double(const std::vector<int>& drafts)>& value) {
  double sum = 0;
  for (int code = 0; code < 27; ++code) {
    const std::vector<int> drafts{code / 9, code / 3 % 3, code % 3};
    double weight = 1;
    int last = 0;
    for (const int token : drafts) {
      weight *= draft_row(last)[static_cast<size_t>(token)];
      last = token;
    }
    sum += weight * value(drafts);
  }
  return sum;
}

TEST(Trace, BlockAcceptsAtLeastAsMuchAsRejection) {
  const double rejection = mean_over_drafts(
      [](const auto& drafts) { return expected_accepted(VerifyRule::kRejection, evidence_of(drafts)); });
  const double block =
      mean_over_drafts([](const auto& drafts) { return expected_accepted(VerifyRule::kBlock, evidence_of(drafts)); });
  const double by_joints =
      mean_over_drafts([](const auto& drafts) { return expected_block_accepted(evidence_of(drafts)); });
  EXPECT_NEAR(block, by_joints, 1e-6);
  EXPECT_GT(block, rejection + 0.01);
  mean_over_drafts([](const auto& drafts) {
    const auto evidence = evidence_of(drafts);
    EXPECT_GE(expected_block_accepted(evidence), expected_accepted(VerifyRule::kRejection, evidence) - 1e-7);
    return 0.0;
  });
}

// Negative control: with residuals that are rejection's, block accepts another number.
TEST(Trace, WrongAcceptancesOfBlockAreFound) {
  const double wrong = mean_over_drafts(
      [](const auto& drafts) { return expected_accepted(VerifyRule::kBlock, evidence_of(drafts, true)); });
  const double by_joints =
      mean_over_drafts([](const auto& drafts) { return expected_block_accepted(evidence_of(drafts)); });
  EXPECT_GT(std::abs(wrong - by_joints), 0.01);
}

TEST(Trace, OneHotDraftsAreAcceptedAlike) {
  const std::vector<DraftEvidence> drafts{{.8f, 1, .8f, .8f}, {.5f, 1, .5f, .4f}};
  EXPECT_NEAR(expected_accepted(VerifyRule::kRejection, drafts), .8 + .4, 1e-6);
  EXPECT_NEAR(expected_block_accepted(drafts), .8 + .4, 1e-6);
}

TEST(Trace, DrawsHaveTheirExpectation) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<> uniform;
  const auto evidence = evidence_of({2, 2, 0});
  for (const VerifyRule rule : {VerifyRule::kRejection, VerifyRule::kBlock}) {
    for (size_t len = 0; len <= kLen; ++len) {
      const auto drafts = std::span(evidence).first(len);
      constexpr int kDraws = 40000;
      double sum = 0;
      for (int i = 0; i < kDraws; ++i) sum += draw_accepted(rule, drafts, [&] { return uniform(random); });
      EXPECT_NEAR(sum / kDraws, expected_accepted(rule, drafts), 5 * 1.5 / std::sqrt(kDraws)) << "length " << len;
    }
  }
}

TEST(Trace, ComparedTokensAreAcceptedOrNot) {
  const std::vector<DraftEvidence> drafts{{1, 1, 1, 1}, {1, 1, 1, 1}, {0, 1, 0, 0}, {1, 1, 1, 0}};
  for (const VerifyRule rule : {VerifyRule::kRejection, VerifyRule::kMatch, VerifyRule::kBlock}) {
    for (const double u : {0.0, 0.999999}) EXPECT_EQ(draw_accepted(rule, drafts, [u] { return u; }), 2);
    EXPECT_EQ(expected_accepted(rule, drafts), 2);
  }
}

}  // namespace
}  // namespace bass
