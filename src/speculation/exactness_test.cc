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

// Of 54 comparisons by chi-square each one fails by chance for one in 290,000 choices of seeds (kMayHappen), so any of
// them for one in 5,000. The seeds are fixed: the tests do not flicker.
constexpr size_t kLongTextLen = 4;
constexpr uint64_t kFewTexts = std::min<uint64_t>(kTexts, 40000);

// All of the registry that draft, with lengths that fit the texts.
std::vector<std::string> policies() {
  std::vector<std::string> texts;
  for (const DraftLengthPolicy* policy : draft_length_policies()) {
    const std::string name(policy->name);
    if (name != "off")
      texts.push_back(name == "bass" ? "bass:l0=3,inc=1,max=4,div=3" : name == "fixed" ? "fixed:3" : name);
  }
  return texts;
}

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

double z_of(const ToySetup& setup, uint64_t n_draws = kFewTexts, size_t text_len = kTextLen) {
  const std::vector<double> expected = exact_joint(setup.main, text_len);
  ToyDecoder decoder(kernels(), setup);
  std::vector<int64_t> counts(expected.size());
  for (uint64_t seed = 0; seed < n_draws; ++seed) ++counts[decoder.index_of(decoder.generate(seed, text_len))];
  return chi_square_z(counts, expected);
}

double distance(const ToySetup& setup) {
  return largest_difference(ToyEnumerator(kernels(), setup).joint(kTextLen), exact_joint(setup.main));
}

// What a policy was asked in samples, and the enumeration has not asked it, or got another answer to.
size_t n_unknown(const ToyPolicy& sampled, const ToyPolicy& enumerated) {
  size_t n = 0;
  for (const auto& [question, answer] : sampled.answers()) {
    const auto found = enumerated.answers().find(question);
    n += found == enumerated.answers().end() || found->second != answer ? 1 : 0;
  }
  return n;
}

class PolicyOn : public ::testing::TestWithParam<std::tuple<VerifyRule, ToyDrafter, std::string>> {
 protected:
  VerifyRule rule_ = std::get<0>(GetParam());
  ToyDrafter drafter_ = std::get<1>(GetParam());
  std::string draft_length_ = std::get<2>(GetParam());
  bool is_learning_ = !draft_length_.starts_with("fixed");
};

std::string name_of(VerifyRule rule, ToyDrafter drafter) {
  static constexpr const char* kDrafters[] = {"Model", "Ngram", "MixedRounds", "MixedPositions"};
  return std::string(rule == VerifyRule::kBlock ? "Block" : "Rejection") + kDrafters[static_cast<int>(drafter)];
}

INSTANTIATE_TEST_SUITE_P(Policies, PolicyOn,
                         ::testing::Combine(::testing::Values(VerifyRule::kRejection, VerifyRule::kBlock),
                                            ::testing::Values(ToyDrafter::kModel, ToyDrafter::kNgram,
                                                              ToyDrafter::kMixedRounds, ToyDrafter::kMixedPositions),
                                            ::testing::ValuesIn(policies())),
                         [](const auto& test) {
                           const std::string length = std::get<2>(test.param);
                           return name_of(std::get<0>(test.param), std::get<1>(test.param)) + "_" +
                                  length.substr(0, length.find(':'));
                         });

TEST_P(PolicyOn, JointDistributionEnumeratedExactly) {
  bool has_drafted = false, has_learnt = false, has_dropped = false;
  for (const ToyPolicyOptions& options : variants(draft_length_, drafter_)) {
    const ToyPolicy policy(options);
    const ToySetup setup = setup_of(rule_, policy);
    const std::vector<double> drawn = ToyEnumerator(kernels(), setup).joint(kLongTextLen);
    EXPECT_LT(largest_difference(drawn, exact_joint(setup.main, kLongTextLen)), 1e-12)
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

// --- looks: `goodput` learns from tokens that were drafted and not verified

// On machines on which drafts do not pay, or only if they are good: what a look has found decides.
std::vector<ToyPolicyOptions> looking_variants(ToyDrafter drafter) {
  std::vector<ToyPolicyOptions> all;
  for (int i = 1; i <= 60; ++i) all.push_back({"goodput", drafter, 0.02 * i, true, 4, /*looks=*/true});
  return all;
}

class PolicyLooks : public ::testing::TestWithParam<std::tuple<VerifyRule, ToyDrafter>> {
 protected:
  [[nodiscard]] ToySetup setup(const ToyPolicy& policy) const { return setup_of(std::get<0>(GetParam()), policy); }
  [[nodiscard]] std::vector<ToyPolicyOptions> variants() const { return looking_variants(std::get<1>(GetParam())); }
  // What one look at the draft model has found is computed into what is expected of it many steps later.
  bool may_decide_ = std::get<1>(GetParam()) != ToyDrafter::kModel;
};

INSTANTIATE_TEST_SUITE_P(Policies, PolicyLooks,
                         ::testing::Combine(::testing::Values(VerifyRule::kRejection, VerifyRule::kBlock),
                                            ::testing::Values(ToyDrafter::kModel, ToyDrafter::kNgram,
                                                              ToyDrafter::kMixedRounds)),
                         [](const auto& test) { return name_of(std::get<0>(test.param), std::get<1>(test.param)); });

// Policies are told the chance of the token that was looked at, or, as of devices that know none, whether it came.
TEST_P(PolicyLooks, JointDistributionEnumeratedExactly) {
  for (const bool tells_labels : {true, false}) {
    int n_looked = 0, n_decided = 0;
    for (const ToyPolicyOptions& options : variants()) {
      const ToyPolicy policy(options);
      ToySetup looking = setup(policy);
      looking.tells_labels = tells_labels;
      EXPECT_LT(distance(looking), 1e-12) << options.row_s;
      n_looked += policy.has_looked() ? 1 : 0;
      n_decided += policy.looks_decide() ? 1 : 0;
    }
    EXPECT_GE(n_looked, 6);
    EXPECT_EQ(n_decided > 0, may_decide_) << "what was drafted behind looks depends on what they found";
  }
}

TEST_P(PolicyLooks, JointDistributionSampled) {
  for (const ToyPolicyOptions& options : variants()) {
    const ToyPolicy sampled(options), enumerated(options);
    ToyEnumerator(kernels(), setup(enumerated)).joint(kTextLen);
    if (may_decide_ ? !enumerated.looks_decide() : !enumerated.has_looked()) continue;
    EXPECT_LT(z_of(setup(sampled)), kMayHappen);
    EXPECT_TRUE(sampled.has_looked());
    EXPECT_EQ(n_unknown(sampled, enumerated), 0u) << "of " << sampled.answers().size();
    return;
  }
  ADD_FAILURE() << "nothing to be sampled";
}

TEST_P(PolicyLooks, ThatAreTakenAreFound) {
  ToySetup faulty = setup(ToyPolicy(variants().back()));
  faulty.fault = Fault::kLookIsTaken;
  EXPECT_GT(distance(faulty), 1e-3);
  EXPECT_GT(z_of(faulty), kMustReject);
}

// --- all policies

// Through the real random numbers. Everything that the policy was told on the way is among what the enumeration told
// it, to the bit, and got the same answer. goodput begins with nothing as well: its first steps measure.
TEST_P(PolicyOn, JointDistributionSampled) {
  std::vector<ToyPolicyOptions> all{{draft_length_, drafter_, 0.05}};
  if (draft_length_ == "goodput") all.push_back({draft_length_, drafter_, 0.2, /*is_warm=*/false});
  for (const ToyPolicyOptions& options : all) {
    const ToyPolicy sampled(options), enumerated(options);
    EXPECT_LT(z_of(setup_of(rule_, sampled), kFewTexts, kLongTextLen), kMayHappen);
    ToyEnumerator(kernels(), setup_of(rule_, enumerated)).joint(kLongTextLen);
    EXPECT_GT(sampled.most_drafted(), options.is_warm ? 1 : 0) << "drafts of several tokens are where rules differ";
    EXPECT_EQ(sampled.has_learnt(), is_learning_);
    EXPECT_EQ(n_unknown(sampled, enumerated), 0u) << "of " << sampled.answers().size();
  }
}

// --- what must be found, with policies on. Drafts of one or two tokens: the extra token lies in the text.

class PolicyOnControl : public ::testing::TestWithParam<std::tuple<VerifyRule, std::string>> {
 protected:
  [[nodiscard]] ToySetup setup(ToyDrafter drafter = ToyDrafter::kModel, int max_len = 2) const {
    const ToyPolicy policy({std::get<1>(GetParam()), drafter, 0.05, true, max_len});
    return setup_of(std::get<0>(GetParam()), policy);
  }
  [[nodiscard]] bool is_block() const { return std::get<0>(GetParam()) == VerifyRule::kBlock; }
};

std::string name_of_control(const ::testing::TestParamInfo<PolicyOnControl::ParamType>& test) {
  const std::string length = std::get<1>(test.param);
  return std::string(std::get<0>(test.param) == VerifyRule::kBlock ? "Block_" : "Rejection_") +
         length.substr(0, length.find(':'));
}

INSTANTIATE_TEST_SUITE_P(Policies, PolicyOnControl,
                         ::testing::Combine(::testing::Values(VerifyRule::kRejection, VerifyRule::kBlock),
                                            ::testing::ValuesIn(policies())),
                         name_of_control);

TEST_P(PolicyOnControl, FaultsAreFound) {
  std::vector<Fault> faults = {Fault::kDropUnlikelyDrafts, Fault::kBonusFromRowBefore, Fault::kResidualFromMain};
  if (is_block()) faults.push_back(Fault::kResidualOfRejection);
  EXPECT_LT(distance(setup()), 1e-12);
  EXPECT_LT(z_of(setup()), kMayHappen);
  for (const Fault fault : faults) {
    ToySetup faulty = setup(ToyDrafter::kModel, fault == Fault::kResidualOfRejection ? 3 : 2);
    faulty.fault = fault;
    EXPECT_GT(distance(faulty), 1e-3) << static_cast<int>(fault);
    EXPECT_GT(z_of(faulty, fault == Fault::kResidualOfRejection ? kTexts : kFewTexts), kMustReject)
        << static_cast<int>(fault);
  }
}

// The same where n-grams draft, alone or in turns with the model: their drafts are certain, so none is unlikely.
TEST_P(PolicyOnControl, FaultsBehindNgramsAreFound) {
  for (const ToyDrafter drafter : {ToyDrafter::kNgram, ToyDrafter::kMixedRounds, ToyDrafter::kMixedPositions}) {
    for (const Fault fault : {Fault::kBonusFromRowBefore, Fault::kResidualFromMain}) {
      ToySetup faulty = setup(drafter);
      EXPECT_LT(distance(faulty), 1e-12);
      faulty.fault = fault;
      EXPECT_GT(distance(faulty), 1e-3) << static_cast<int>(drafter) << " " << static_cast<int>(fault);
      EXPECT_GT(z_of(faulty), kMustReject) << static_cast<int>(drafter) << " " << static_cast<int>(fault);
    }
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
class PolicyOnBlockControl : public PolicyOnControl {};

INSTANTIATE_TEST_SUITE_P(Policies, PolicyOnBlockControl,
                         ::testing::Combine(::testing::Values(VerifyRule::kBlock), ::testing::ValuesIn(policies())),
                         name_of_control);

TEST_P(PolicyOnBlockControl, NoiseOfAnEarlierRoundIsFound) {
  ToySetup faulty = setup(ToyDrafter::kModel, 4);
  faulty.fault = Fault::kPositionOnlyNoise;
  EXPECT_GT(z_of(faulty), kMustReject);
}

}  // namespace
}  // namespace bass
