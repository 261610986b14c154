#include "kernels/sampling/verify.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string_view>

#include "kernels/sampling/verify_testing.h"

namespace bass {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): what the tests of this folder share

// --- `rejection` and `block`

class Lossless : public ::testing::TestWithParam<VerifyRule> {};
INSTANTIATE_TEST_SUITE_P(Rules, Lossless, ::testing::Values(VerifyRule::kRejection, VerifyRule::kBlock),
                         [](const auto& test) { return test.param == VerifyRule::kBlock ? "Block" : "Rejection"; });

TEST_P(Lossless, JointDistributionEnumeratedExactly) {
  for (auto& [name, setup] : exact_setups(GetParam())) {
    const bool has_processors = setup.params.top_k > 0;
    for (int len = 0; len <= 5; ++len) {
      setup.length = len <= 4 ? fixed_length(len) : length_by_accepted;
      ToyEnumerator toy(kernels(), setup);
      const std::vector<double> expected = has_processors ? toy.main_joint(kTextLen) : exact_joint(setup.main);
      EXPECT_LT(largest_difference(toy.joint(kTextLen), expected), 1e-12) << name << " " << len;
    }
  }
}

TEST_P(Lossless, EnumerationRejectsTheControls) {
  for (const Fault fault : {Fault::kResidualFromMain, Fault::kDropUnlikelyDrafts, Fault::kBonusFromRowBefore}) {
    // The bonus of a longer draft lies behind the text.
    for (int len = 1; len <= (fault == Fault::kBonusFromRowBefore ? 2 : 4); ++len) {
      ToySetup setup = model_setup(GetParam());
      setup.length = fixed_length(len);
      setup.fault = fault;
      const std::vector<double> drawn = ToyEnumerator(kernels(), setup).joint(kTextLen);
      EXPECT_GT(largest_difference(drawn, exact_joint(setup.main)), 1e-3) << static_cast<int>(fault) << " " << len;
    }
  }
}

// Chi-square of the joint distribution of 3 tokens, drawn through the real random numbers.
TEST_P(Lossless, JointDistributionSampled) {
  for (auto& [name, setup] : exact_setups(GetParam())) {
    for (int len = 0; len <= 5; ++len) {
      if (std::string_view(name) != "model" && len != 2 && len != 5) continue;  // two lengths are enough for the others
      setup.length = len <= 4 ? fixed_length(len) : length_by_accepted;
      const std::vector<double> expected = ToyEnumerator(kernels(), setup).main_joint(kTextLen);
      EXPECT_LT(sampled_z(setup, expected), kMayHappen) << name << " " << len;
    }
  }
}

TEST_P(Lossless, DraftAndResidualMustNotShareNoise) {
  ToySetup setup = wide_setup(GetParam());
  const std::vector<double> expected = exact_joint(setup.main);
  EXPECT_LT(sampled_z(setup, expected), kMayHappen);
  setup.fault = Fault::kSharedNoise;
  EXPECT_GT(sampled_z(setup, expected), kMustReject);
}

// A policy that reads what an earlier round drafted, unverified, at the position where the next round starts. That is
// harmless as long as the round draws new noise, and a bias when it does not.
TEST_P(Lossless, NoiseMustNotComeAgainInALaterRound) {
  ToySetup setup = model_setup(GetParam());
  setup.main.context_spread = setup.draft.context_spread = 0.3;
  setup.length = [](const PolicyView& view) { return view.n_accepted < 0 ? 3 : view.earlier_draft == 0 ? 0 : 2; };
  const std::vector<double> expected = exact_joint(setup.main);
  EXPECT_LT(sampled_z(setup, expected), kMayHappen);
  setup.fault = Fault::kPositionOnlyNoise;
  EXPECT_GT(sampled_z(setup, expected), kMustReject);
}

TEST_P(Lossless, SamplingRejectsTheOtherControls) {
  for (const Fault fault :
       {Fault::kResidualFromMain, Fault::kDropUnlikelyDrafts, Fault::kTakeUnverified, Fault::kBonusFromRowBefore}) {
    ToySetup setup = model_setup(GetParam());
    setup.length = fixed_length(2);
    setup.fault = fault;
    EXPECT_GT(sampled_z(setup, exact_joint(setup.main)), kMustReject) << static_cast<int>(fault);
  }
}

// The controls run through the rule as the toy decoder writes it out: without a fault that is the real one.
TEST_P(Lossless, TheControlsDifferByTheirFaultOnly) {
  for (const DraftKind kind : {DraftKind::kModel, DraftKind::kOneHot, DraftKind::kMixed}) {
    ToySetup setup = wide_setup(GetParam());
    setup.draft_kind = kind;
    ToyDecoder real(kernels(), setup);
    setup.fault = Fault::kNoneWrittenOut;
    ToyDecoder written_out(kernels(), setup);
    for (uint64_t seed = 0; seed < 2000; ++seed) ASSERT_EQ(real.generate(seed, 12), written_out.generate(seed, 12));
  }
}

TEST_P(Lossless, WithoutDraftsItIsRegularDecoding) {
  ToySetup setup = model_setup(GetParam());
  ToySetup match = setup;
  match.params.rule = VerifyRule::kMatch;
  ToyDecoder a(kernels(), setup), b(kernels(), match);
  for (uint64_t seed = 0; seed < 500; ++seed) EXPECT_EQ(a.generate(seed, 20), b.generate(seed, 20));
}

// --- match

std::vector<ToySetup> match_setups() {
  std::vector<ToySetup> setups;
  for (auto& [name, setup] : exact_setups(VerifyRule::kMatch)) {
    for (const float temperature : {0.0f, 0.7f, 1.0f}) {
      setup.params.temperature = temperature;
      setups.push_back(setup);
    }
  }
  return setups;
}

TEST(Match, IdenticalToRegularDecoding) {
  int n_with_accepted = 0;
  for (ToySetup setup : match_setups()) {
    setup.length = fixed_length(0);
    ToyDecoder regular(kernels(), setup);
    for (int len = 1; len <= 5; ++len) {
      int n_rounds = 0, n_accepted = 0;
      setup.length = [&, len](const PolicyView& view) {
        ++n_rounds;
        n_accepted += std::max(0, view.n_accepted);
        return len <= 4 ? len : length_by_accepted(view);
      };
      ToyDecoder decoder(kernels(), setup);
      for (uint64_t seed = 0; seed < 100; ++seed) ASSERT_EQ(decoder.generate(seed, 24), regular.generate(seed, 24));
      n_with_accepted += n_accepted > 0;
      if (setup.draft.id == setup.main.id && setup.draft_kind == DraftKind::kModel && len == 4) {
        EXPECT_GT(n_accepted, 2 * n_rounds);  // the main model as its own draft: nearly everything is accepted
      }
    }
  }
  EXPECT_GT(n_with_accepted, 60);
}

TEST(Match, TakingDraftsWithoutComparingDiffers) {
  ToySetup setup = model_setup(VerifyRule::kMatch);
  ToyDecoder regular(kernels(), setup);
  setup.length = fixed_length(2);
  setup.fault = Fault::kTakeUnverified;
  ToyDecoder faulty(kernels(), setup);
  int n_different = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) n_different += faulty.generate(seed, 24) != regular.generate(seed, 24);
  EXPECT_GT(n_different, 90);
}

TEST(Match, SamplesTheMainModel) {
  ToySetup setup = model_setup(VerifyRule::kMatch);
  setup.length = fixed_length(3);
  EXPECT_LT(sampled_z(setup, exact_joint(setup.main)), kMayHappen);
}

// --- single rows

TEST(VerifyRow, GreedyComparesUnderEveryRule) {
  const std::vector<float> logits{1, 4, 2};
  RowSampler sampler(kernels(), 3);
  for (const VerifyRule rule : {VerifyRule::kRejection, VerifyRule::kMatch, VerifyRule::kBlock}) {
    SamplingParams params;
    params.temperature = 0;
    params.rule = rule;
    EXPECT_FALSE(is_judged_as_block(params));
    for (TokenId token = 0; token < 3; ++token) {
      const RowDistribution p = sampler.build(logits.data(), 3, params, {}, normalise_for_verification(params));
      const RowVerdict verdict = verify_row(sampler, p, logits.data(), params, {9, 7}, {token, nullptr});
      EXPECT_EQ(verdict.accepted, token == 1);
      EXPECT_EQ(verdict.token, 1);
    }
  }
}

TEST(VerifyRow, ReportsTheRawLogprobOfWhatIsEmitted) {
  const std::vector<float> logits{1, 1.5f, 2};
  const double lse = std::log(std::exp(1.0) + std::exp(1.5) + std::exp(2.0));
  RowSampler sampler(kernels(), 3);
  SamplingParams params;
  params.temperature = 0.5f;
  int n_accepted = 0;
  for (uint32_t position = 1; position < 100; ++position) {
    const RowDistribution p = sampler.build(logits.data(), 3, params, {}, normalise_for_verification(params));
    const RowVerdict verdict = verify_row(sampler, p, logits.data(), params, {position, position}, {1, nullptr});
    n_accepted += verdict.accepted;
    EXPECT_EQ(verdict.accepted, verdict.token == 1);  // a one-hot residual does not have the drafted token
    EXPECT_NEAR(verdict.logprob, logits[static_cast<size_t>(verdict.token)] - lse, 1e-6);
  }
  EXPECT_GT(n_accepted, 10);
  EXPECT_LT(n_accepted, 60);
}

TEST(VerifyRow, OneHotDraftOfTheOnlyTokenIsEmitted) {
  const std::vector<float> logits{-INFINITY, 3, -INFINITY};
  RowSampler sampler(kernels(), 3);
  const SamplingParams params;
  for (const TokenId token : {0, 1, 2}) {
    const RowDistribution p = sampler.build(logits.data(), 3, params, {}, Normalise::kYes);
    EXPECT_EQ(verify_row(sampler, p, logits.data(), params, {5, 5}, {token, nullptr}).token, 1);
  }
}

TEST(VerifyRow, StreamsAreThoseOfTheTable) {
  SamplingParams params;
  params.seed = 3;
  params.sample_idx = 4;
  EXPECT_EQ(sample_stream(params, 9).round_start, 0u);
  EXPECT_EQ(sample_stream(params, 9).purpose, RandomPurpose::kSample);
  EXPECT_EQ(draft_stream(params, {9, 8}).purpose, RandomPurpose::kDraft);
  EXPECT_EQ(draft_stream(params, {9, 8}).round_start, 8u);
  params.rule = VerifyRule::kMatch;
  EXPECT_EQ(draft_stream(params, {9, 8}).purpose, RandomPurpose::kSample);
  EXPECT_EQ(draft_stream(params, {9, 8}).round_start, 0u);
  EXPECT_EQ(normalise_for_verification(params), Normalise::kNo);
}

}  // namespace
}  // namespace bass
