// `rejection` and `block` stay lossless with a draft-length policy switched on: its real code decides in the
// enumeration and in the sampling, by what an engine would tell it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "kernels/sampling/verify_testing.h"
#include "speculation/toy_policy.h"

namespace bass {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): what the tests of verification share

// Of 36 comparisons by chi-square each one fails by chance for one in 290,000 choices of seeds (kMayHappen), so any of
// them for one in 8,000. The seeds are fixed: the tests do not flicker.
constexpr size_t kEnumeratedLen = 4;
constexpr uint64_t kFewTexts = std::min<uint64_t>(kTexts, 40000);

const char* const kPolicies[] = {"bass:l0=3,inc=1,max=4,div=3", "fixed:3", "survival", "goodput"};

ToySetup setup_of(VerifyRule rule, const ToyPolicy& policy) {
  ToySetup setup = model_setup(rule);
  setup.main.n_vocab = setup.draft.n_vocab = 3;
  setup.main.id = 9;  // of several pairs of models the one on which all faults show well
  setup.draft.id = 10;
  setup.tells_labels = true;
  setup.length = policy;
  return setup;
}

// Machines on which goodput's choices differ, and thresholds with which survival's do.
std::vector<ToyPolicyOptions> variants(const std::string& draft_length, ToyDrafter drafter) {
  std::vector<ToyPolicyOptions> all;
  for (int i = 0; i < 16; ++i) {
    std::string text = draft_length;
    if (draft_length == "survival") text += fmt::format(":min={}", 0.1 + 0.05 * (i / 2));
    all.push_back({text, drafter, 0.06 * (i / 2), /*is_warm=*/i % 2 == 0});
  }
  return all;
}

std::vector<int64_t> counts_of(const ToySetup& setup, size_t n_texts, uint64_t n_draws) {
  ToyDecoder decoder(kernels(), setup);
  std::vector<int64_t> counts(n_texts);
  for (uint64_t seed = 0; seed < n_draws; ++seed) ++counts[decoder.index_of(decoder.generate(seed, kTextLen))];
  return counts;
}

double z_of(const ToySetup& setup, uint64_t n_draws = kFewTexts) {
  const std::vector<double> expected = exact_joint(setup.main);
  return chi_square_z(counts_of(setup, expected.size(), n_draws), expected);
}

double distance(const ToySetup& setup) {
  return largest_difference(ToyEnumerator(kernels(), setup).joint(kTextLen), exact_joint(setup.main));
}

class PolicyOn : public ::testing::TestWithParam<std::tuple<VerifyRule, ToyDrafter, const char*>> {
 protected:
  VerifyRule rule_ = std::get<0>(GetParam());
  ToyDrafter drafter_ = std::get<1>(GetParam());
  std::string draft_length_ = std::get<2>(GetParam());
  bool is_learning_ = !draft_length_.starts_with("fixed");
};

std::string name_of(const ::testing::TestParamInfo<PolicyOn::ParamType>& test) {
  const char* const drafters[] = {"Model", "Ngram", "MixedRounds", "MixedPositions"};
  const std::string length = std::get<2>(test.param);
  return std::string(std::get<0>(test.param) == VerifyRule::kBlock ? "Block" : "Rejection") +
         drafters[static_cast<int>(std::get<1>(test.param))] + "_" + length.substr(0, length.find(':'));
}

INSTANTIATE_TEST_SUITE_P(Policies, PolicyOn,
                         ::testing::Combine(::testing::Values(VerifyRule::kRejection, VerifyRule::kBlock),
                                            ::testing::Values(ToyDrafter::kModel, ToyDrafter::kNgram,
                                                              ToyDrafter::kMixedRounds, ToyDrafter::kMixedPositions),
                                            ::testing::ValuesIn(kPolicies)),
                         name_of);

TEST_P(PolicyOn, JointDistributionEnumeratedExactly) {
  bool has_drafted = false, has_learnt = false, has_dropped = false;
  for (const ToyPolicyOptions& options : variants(draft_length_, drafter_)) {
    const ToyPolicy policy(options);
    const ToySetup setup = setup_of(rule_, policy);
    const std::vector<double> drawn = ToyEnumerator(kernels(), setup).joint(kEnumeratedLen);
    EXPECT_LT(largest_difference(drawn, exact_joint(setup.main, kEnumeratedLen)), 1e-12)
        << options.draft_length << ", " << options.row_s << ", " << options.is_warm;
    has_drafted |= policy.has_drafted();
    has_learnt |= policy.has_learnt();
    has_dropped |= policy.has_dropped();
  }
  EXPECT_TRUE(has_drafted);
  const bool has_ends = drafter_ != ToyDrafter::kNgram && (draft_length_ == "survival" || draft_length_ == "goodput");
  EXPECT_EQ(has_dropped, has_ends) << "drafts that end by their confidence";
  EXPECT_EQ(has_learnt, is_learning_) << "the same lengths whatever came of the rounds before: nothing is shown";
}

// Through the real random numbers. Everything that the policy was told on the way is among what the enumeration told
// it, to the bit, and got the same answer.
TEST_P(PolicyOn, JointDistributionSampled) {
  const ToyPolicyOptions options{draft_length_, drafter_, 0.2, draft_length_ != "goodput"};
  const ToyPolicy sampled(options), enumerated(options);
  EXPECT_LT(z_of(setup_of(rule_, sampled)), kMayHappen);
  ToyEnumerator(kernels(), setup_of(rule_, enumerated)).joint(kTextLen);
  EXPECT_GT(sampled.answers().size(), 1u);
  size_t n_unknown = 0;
  for (const auto& [question, answer] : sampled.answers()) {
    const auto found = enumerated.answers().find(question);
    n_unknown += found == enumerated.answers().end() || found->second != answer ? 1 : 0;
  }
  EXPECT_EQ(n_unknown, 0u) << "of " << sampled.answers().size();
}

// --- what must be found, with policies on. Drafts of one or two tokens: the extra token lies in the text.

class PolicyOnControl : public ::testing::TestWithParam<std::tuple<VerifyRule, const char*>> {
 protected:
  [[nodiscard]] ToySetup setup(ToyDrafter drafter = ToyDrafter::kModel, int max_len = 2) const {
    const ToyPolicy policy({std::get<1>(GetParam()), drafter, 0.05, true, max_len});
    return setup_of(std::get<0>(GetParam()), policy);
  }
  [[nodiscard]] bool is_block() const { return std::get<0>(GetParam()) == VerifyRule::kBlock; }
};

INSTANTIATE_TEST_SUITE_P(Policies, PolicyOnControl,
                         ::testing::Combine(::testing::Values(VerifyRule::kRejection, VerifyRule::kBlock),
                                            ::testing::ValuesIn(kPolicies)),
                         [](const auto& test) {
                           const std::string length = std::get<1>(test.param);
                           return std::string(std::get<0>(test.param) == VerifyRule::kBlock ? "Block_" : "Rejection_") +
                                  length.substr(0, length.find(':'));
                         });

TEST_P(PolicyOnControl, FaultsAreFound) {
  std::vector<Fault> faults = {Fault::kDropUnlikelyDrafts, Fault::kBonusFromRowBefore, Fault::kResidualFromMain};
  if (is_block()) faults.push_back(Fault::kResidualOfRejection);
  EXPECT_LT(distance(setup()), 1e-12);
  for (const Fault fault : faults) {
    ToySetup faulty = setup(ToyDrafter::kModel, fault == Fault::kResidualOfRejection ? 3 : 2);
    faulty.fault = fault;
    EXPECT_GT(distance(faulty), 1e-3) << static_cast<int>(fault);
    EXPECT_GT(z_of(faulty, fault == Fault::kResidualOfRejection ? kTexts : kFewTexts), kMustReject)
        << static_cast<int>(fault);
  }
}

// Non-anticipation: rules that end a draft by the token that was drawn, or by what a certain draft behind it says.
TEST_P(PolicyOnControl, LooksAtADrawnTokenAreFound) {
  ToySetup looks = setup();
  looks.n_thrown_away = [](const DraftView& view) { return view.token == 0 ? 1 : 0; };
  EXPECT_GT(distance(looks), 1e-3);
  EXPECT_GT(z_of(looks), kMustReject);
  ToySetup takes_back = setup(ToyDrafter::kMixedPositions, 4);
  takes_back.n_thrown_away = [](const DraftView& view) { return view.is_one_hot && view.token == 1 ? 2 : 0; };
  EXPECT_GT(distance(takes_back), 1e-3);
  EXPECT_GT(z_of(takes_back), kMustReject);
}

// Looks at what is known before a token is drawn, and of certain drafts at themselves, are allowed.
TEST_P(PolicyOnControl, LooksAtDistributionsAndAtCertainDraftsAreExact) {
  const std::function<size_t(const DraftView&)> rules[] = {
      [](const DraftView& view) { return view.q_max < 0.6 ? 1 : 0; },
      [](const DraftView& view) { return view.q_max - view.q_second < 0.3 ? 1 : 0; },
      [](const DraftView& view) { return view.is_one_hot && view.token == 1 ? 1 : 0; },
  };
  for (const auto& rule : rules) {
    int n_ended = 0;
    for (const ToyDrafter drafter : {ToyDrafter::kModel, ToyDrafter::kMixedPositions}) {
      ToySetup allowed = setup(drafter, 4);
      allowed.n_thrown_away = [&](const DraftView& view) {
        const size_t n = rule(view);
        n_ended += n > 0 ? 1 : 0;
        return n;
      };
      EXPECT_LT(distance(allowed), 1e-12);
    }
    EXPECT_GT(n_ended, 0);
  }
}

// Noise that an earlier round has looked at. `block` looks at the numbers of positions that it does not accept, at any
// policy. What `rejection` looks at is emitted, and all that these policies hear of other tokens is how sure the draft
// was behind them, from which they learn too little for this fault to show: draft_end_exactness_test.cc and
// kernels/sampling/verify_test.cc have policies that make more of it.
TEST_P(PolicyOnControl, NoiseOfAnEarlierRoundIsFoundUnderBlock) {
  if (!is_block()) return;
  ToySetup faulty = setup(ToyDrafter::kModel, 4);
  faulty.fault = Fault::kPositionOnlyNoise;
  EXPECT_GT(z_of(faulty), kMustReject);
}

}  // namespace
}  // namespace bass
