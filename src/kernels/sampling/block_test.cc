#include "kernels/sampling/block.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/sampling/verify_testing.h"

// That the rule is lossless is shown in verify_test.cc, together with `rejection`.
namespace bass {
namespace {

RowVerdict judge_row(const RowSampler& sampler, const RowDistribution& p, const float* logits,
                     const SamplingParams& params, RoundPosition at, const DraftedToken& draft, BlockRound* round) {
  const BlockRow row = look_at_block_row(p, logits, draft);
  const double mass = needs_residual_mass(params, at, *round) ? residual_mass(sampler, p, round->joint, draft) : 0;
  judge_block_row(row, params, at, mass, round);
  return row.verdict;
}

using namespace testing;  // NOLINT(google-build-using-namespace): what the tests of this folder share

// The paper's example: two tokens, no context, drafts of two.
ToySetup paper_setup(VerifyRule rule) {
  ToySetup setup;
  setup.main.n_vocab = setup.draft.n_vocab = 2;
  setup.main.everywhere = {1.0 / 3, 2.0 / 3};
  setup.draft.everywhere = {2.0 / 3, 1.0 / 3};
  setup.params.rule = rule;
  setup.length = fixed_length(2);
  return setup;
}

TEST(Block, AcceptsAsManyAsThePaperSays) {
  ToyEnumerator rejection(kernels(), paper_setup(VerifyRule::kRejection));
  ToyEnumerator block(kernels(), paper_setup(VerifyRule::kBlock));
  EXPECT_NEAR(rejection.expected_accepted({}, 2), 10.0 / 9, 1e-3);  // the draft's row is rounded to f16
  EXPECT_NEAR(block.expected_accepted({}, 2), 11.0 / 9, 1e-3);
}

// On the same rows, behind every text: at least as many in expectation, and really more where drafts are sampled.
TEST(Block, AcceptsAtLeastAsManyAsRejection) {
  double gain = 0;
  for (uint64_t model = 0; model < 40; ++model) {
    for (const DraftKind kind : {DraftKind::kModel, DraftKind::kOneHot}) {
      ToySetup setup = model_setup(VerifyRule::kRejection);
      setup.main.id = 1000 + 2 * model;
      setup.draft.id = setup.main.id + 1;
      setup.draft_kind = kind;
      ToyEnumerator rejection(kernels(), setup);
      setup.params.rule = VerifyRule::kBlock;
      ToyEnumerator block(kernels(), setup);
      for (int len = 0; len <= 4; ++len) {
        const double more = block.expected_accepted({1}, len) - rejection.expected_accepted({1}, len);
        EXPECT_GT(more, -1e-12) << model << " " << len;
        if (kind == DraftKind::kOneHot || len < 2) {
          EXPECT_LT(more, 1e-12);  // there is nothing to gain
        }
        gain += more;
      }
    }
  }
  EXPECT_GT(gain, 1);
}

// The real walk accepts what the enumeration says.
TEST(Block, AcceptedLengthsAreThoseOfTheEnumeration) {
  ToySetup setup = wide_setup(VerifyRule::kBlock);
  const double expected = ToyEnumerator(kernels(), setup).expected_accepted({}, 3);
  double sum = 0;
  int n_rounds = 0;
  setup.length = [&](const PolicyView& view) {
    if (view.n_accepted >= 0) sum += view.n_accepted, ++n_rounds;
    return view.n_accepted < 0 ? 3 : 0;
  };
  ToyDecoder decoder(kernels(), setup);
  for (uint64_t seed = 0; seed < 20000; ++seed) {
    n_rounds = 0;
    const double before = sum;
    decoder.generate(seed, 5);
    ASSERT_GE(n_rounds, 1);
    EXPECT_LE(sum - before, 3);
  }
  EXPECT_NEAR(sum / 20000, expected, 5 * 1.5 / std::sqrt(20000.0));
}

// Faults that only `block` can have, with models on which prefixes of p_i < 1 are often accepted.
ToySetup control_setup(Fault fault, int len) {
  ToySetup setup = model_setup(VerifyRule::kBlock);
  setup.main.id = 21;
  setup.draft.id = 22;
  setup.main.n_vocab = setup.draft.n_vocab = 8;
  setup.length = fixed_length(len);
  setup.fault = fault;
  return setup;
}

double total_variation(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::abs(a[i] - b[i]);
  return sum / 2;
}

TEST(Block, EnumerationRejectsItsControls) {
  for (int len = 2; len <= 3; ++len) {
    const std::vector<double> expected = exact_joint(control_setup(Fault::kNone, len).main);
    const auto distance = [&](Fault fault) {
      return total_variation(ToyEnumerator(kernels(), control_setup(fault, len)).joint(kTextLen), expected);
    };
    EXPECT_LT(distance(Fault::kNone), 1e-12) << len;
    EXPECT_GT(distance(Fault::kResidualOfRejection), 0.01) << len;
    EXPECT_GT(distance(Fault::kStopAtFirstRejection), 0.01) << len;
  }
}

TEST(Block, SamplingRejectsItsControls) {
  const std::vector<double> expected = exact_joint(control_setup(Fault::kNone, 3).main);
  EXPECT_LT(sampled_z(control_setup(Fault::kNone, 3), expected), kMayHappen);
  for (const Fault fault : {Fault::kResidualOfRejection, Fault::kStopAtFirstRejection}) {
    EXPECT_GT(sampled_z(control_setup(fault, 3), expected), kMustReject) << static_cast<int>(fault);
  }
}

// With noise that is indexed by position only, a later round sees again what this one has looked at behind its accepted
// tokens: a bias of .066 in total variation over three tokens. `rejection` has none here.
TEST(Block, NoiseOfAnEarlierRoundMustNotComeAgain) {
  const std::vector<double> expected = exact_joint(paper_setup(VerifyRule::kBlock).main);
  const auto distance = [&](VerifyRule rule, Fault fault) {
    ToySetup setup = paper_setup(rule);
    setup.fault = fault;
    std::vector<double> drawn;
    for (const int64_t count : sampled_counts(setup, expected.size())) {
      drawn.push_back(static_cast<double>(count) / static_cast<double>(kTexts));
    }
    return total_variation(drawn, expected);
  };
  EXPECT_LT(sampled_z(paper_setup(VerifyRule::kBlock), expected), kMayHappen);
  EXPECT_LT(distance(VerifyRule::kBlock, Fault::kNone), 0.008);
  EXPECT_NEAR(distance(VerifyRule::kBlock, Fault::kPositionOnlyNoise), 0.066, 0.008);
  EXPECT_LT(distance(VerifyRule::kRejection, Fault::kPositionOnlyNoise), 0.008);
}

// --- single rows

TEST(BlockFormulas, NoughtByNoughtCountsAsOne) {
  EXPECT_EQ(block_acceptance(1.0, 0.0), 1.0);
  EXPECT_EQ(block_acceptance(1.0, 0.3), 1.0);
  EXPECT_EQ(block_acceptance(0.0, 0.0), 0.0);
  EXPECT_EQ(block_acceptance(0.5, 0.0), 0.0);
  EXPECT_DOUBLE_EQ(block_acceptance(0.5, 0.25), 1.0 / 3);
  EXPECT_EQ(next_joint(1.0, 0.4, 0.2), 1.0);
  EXPECT_DOUBLE_EQ(next_joint(0.25, 0.4, 0.2), 0.5);
  EXPECT_EQ(next_joint(0.0, 0.4, 0.2), 0.0);
}

TEST(BlockRow, APrefixThatTheMainModelCannotHaveIsOver) {
  const std::vector<float> logits{0, -INFINITY, 0};
  SamplingParams params;
  params.rule = VerifyRule::kBlock;
  RowSampler sampler(kernels(), 3);
  const RowDistribution p = sampler.build(logits.data(), 3, params, {}, normalise_for_verification(params));
  BlockRound round;
  const DraftedToken draft{1, nullptr};
  judge_row(sampler, p, logits.data(), params, {7, 7}, draft, &round);
  EXPECT_TRUE(round.is_over());
  judge_row(sampler, p, logits.data(), params, {8, 7}, {0, nullptr}, &round);
  judge_last_block_row(params, {9, 7}, &round);
  EXPECT_EQ(round.n_accepted, 0);
  const RowVerdict verdict = block_residual(sampler, p, logits.data(), params, {7, 7}, draft, round);
  EXPECT_FALSE(verdict.accepted);
  EXPECT_NE(verdict.token, 1);
  EXPECT_NEAR(verdict.logprob, std::log(0.5), 1e-6);
}

// Equal rows leave no residual, whose sample must then be one of p; and everything is accepted before it is asked for.
TEST(BlockRow, AResidualWithoutMassIsASampleOfTheMainModel) {
  const std::vector<float> logits{1, -INFINITY, 2};
  SamplingParams params;
  params.rule = VerifyRule::kBlock;
  RowSampler sampler(kernels(), 3);
  constexpr uint32_t kDraws = 4000;
  int n_last = 0;
  for (uint32_t start = 1; start <= kDraws; ++start) {
    std::vector<float> q_logits = logits;
    const RowDistribution p = sampler.build(logits.data(), 3, params, {}, Normalise::kYes);
    RowDistribution q = p;
    q.z = q_logits.data();
    const DraftedToken draft{2, &q};
    BlockRound round;
    judge_row(sampler, p, logits.data(), params, {start, start}, draft, &round);
    judge_row(sampler, p, logits.data(), params, {start + 1, start}, draft, &round);
    judge_last_block_row(params, {start + 2, start}, &round);
    EXPECT_EQ(round.n_accepted, 2);
    const TokenId token = block_residual(sampler, p, logits.data(), params, {start, start}, draft, round).token;
    EXPECT_NE(token, 1);
    n_last += token == 2 ? 1 : 0;
  }
  const double p_last = 1 / (1 + std::exp(-1.0));
  const double deviation = std::sqrt(kDraws * p_last * (1 - p_last));
  EXPECT_NEAR(n_last, kDraws * p_last, 4.5 * deviation);
  EXPECT_GT(std::abs(n_last - kDraws / 2.0), 4.5 * deviation) << "half of each would pass";
}

TEST(BlockRow, ARowWithoutNumbersIsToldByItsVerdict) {
  const std::vector<float> logits{0, NAN, 0};
  SamplingParams params;
  params.rule = VerifyRule::kBlock;
  RowSampler sampler(kernels(), 3);
  const RowDistribution p = sampler.build(logits.data(), 3, params, {}, Normalise::kYes);
  const DraftedToken draft{2, nullptr};
  BlockRound round;
  EXPECT_TRUE(judge_row(sampler, p, logits.data(), params, {7, 7}, draft, &round).is_degenerate);
  EXPECT_TRUE(block_residual(sampler, p, logits.data(), params, {7, 7}, draft, round).is_degenerate);
}

}  // namespace
}  // namespace bass
