// A model's draft may end by its own confidence without a change of what is generated: toy drafts whose confidence
// varies with the text, ends set by hand, by enumeration and through the real random numbers. exactness_test.cc has the
// ends that policies choose.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "kernels/sampling/verify_testing.h"
#include "speculation/toy_policy.h"

namespace bass {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): what the tests of verification share

// Each comparison by chi-square fails by chance for one in 290,000 choices of seeds (kMayHappen); the seeds are fixed.
constexpr int kDraftLen = 4;

/// What became of the drafts of a test.
struct Ends {
  int in_front = 0, behind = 0, none = 0;  // of a place, at its length or at a place where it goes on
};

EndRule counted(EndRule rule, Ends* ends) {
  return [rule = std::move(rule), ends](std::span<const float> confidences) {
    const DraftEnd end = rule(confidences);
    ++(end == DraftEnd::kInFront ? ends->in_front : end == DraftEnd::kBehind ? ends->behind : ends->none);
    return end;
  };
}

ToySetup setup_of(VerifyRule rule, DraftKind kind, const EndRule& ends, int len = kDraftLen) {
  ToySetup setup = model_setup(rule);
  setup.main.n_vocab = setup.draft.n_vocab = 3;
  setup.main.id = 9;
  setup.draft.id = 10;
  setup.length = [=](const PolicyView&) { return DraftChoice{len, kind, 0, ends}; };
  return setup;
}

constexpr ConfidenceTerms kDoubtful{-0.5f, 0.7f};  // drafts end somewhere, but not everywhere

std::vector<DraftStop> stops() {
  std::vector<DraftStop> all;
  for (const ConfidenceTerms& terms : {kDoubtful, ConfidenceTerms{0, 2}, ConfidenceTerms{1, 0}}) {
    for (const float offset : {-1.5f, 0.0f, 1.5f}) {
      for (const float min_survival : {0.1f, 0.3f, 0.5f, 0.7f, 0.9f}) {
        all.push_back({min_survival, offset, terms});
      }
    }
  }
  return all;
}

double distance_with_ends(const ToySetup& setup, size_t n_tokens = kTextLen) {
  return largest_difference(ToyEnumerator(kernels(), setup).joint(n_tokens), exact_joint(setup.main, n_tokens));
}

double z_with_ends(const ToySetup& setup) { return sampled_z(setup, exact_joint(setup.main)); }

class DraftEnds : public ::testing::TestWithParam<VerifyRule> {};

INSTANTIATE_TEST_SUITE_P(Rules, DraftEnds, ::testing::Values(VerifyRule::kRejection, VerifyRule::kBlock),
                         [](const auto& test) { return test.param == VerifyRule::kBlock ? "Block" : "Rejection"; });

TEST_P(DraftEnds, JointDistributionEnumeratedExactly) {
  for (const DraftKind kind : {DraftKind::kModel, DraftKind::kMixed}) {
    Ends ends;
    for (const DraftStop& stop : stops()) {
      const ToySetup setup = setup_of(GetParam(), kind, counted(ends_where(stop), &ends));
      EXPECT_LT(distance_with_ends(setup), 1e-12)
          << fmt::format("{} {} {} {}", stop.min_survival, stop.offset, stop.model.bias, stop.model.slope);
    }
    EXPECT_GT(std::min({ends.in_front, ends.behind, ends.none}), 100);
  }
}

// The confidence of a place depends on the tokens in front of it, so that a round's drafts are of different lengths.
TEST_P(DraftEnds, LengthsVaryWithTheText) {
  ToyDecoder decoder(kernels(), setup_of(GetParam(), DraftKind::kModel, ends_where({0.3f, 0, {0, 2}})));
  std::set<int> lens;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    decoder.generate(seed, kTextLen);
    for (const ToyRound& round : decoder.rounds()) lens.insert(round.n_drafted);
  }
  EXPECT_GE(lens.size(), 3u);
}

TEST_P(DraftEnds, JointDistributionSampled) {
  for (const DraftStop& stop :
       {DraftStop{0.2f, 0, kDoubtful}, {0.3f, 0.5f, {0, 2}}, {0.5f, 1.5f, kDoubtful}, {0.5f, 0, {0, 2}}}) {
    Ends ends;
    EXPECT_LT(z_with_ends(setup_of(GetParam(), DraftKind::kModel, counted(ends_where(stop), &ends))), kMayHappen)
        << stop.min_survival;
    EXPECT_GT(ends.in_front, static_cast<int>(kTexts / 200));
    EXPECT_GT(ends.none, static_cast<int>(kTexts / 200));
  }
}

// --- what must be found

// Anticipation: the same ends by the probability of the token that was drawn.
TEST_P(DraftEnds, LooksAtADrawnTokenAreFound) {
  for (const DraftStop& stop : {DraftStop{0.3f, 0.5f, {0, 2}}, {0.5f, 1.5f, kDoubtful}}) {
    for (const DraftKind kind : {DraftKind::kModel, DraftKind::kMixed}) {
      ToySetup looks = setup_of(GetParam(), kind, ends_where(stop));
      EXPECT_LT(distance_with_ends(looks), 1e-12);
      looks.fault = Fault::kEndLooksAtToken;
      EXPECT_GT(distance_with_ends(looks), 1e-3) << stop.min_survival;
      EXPECT_GT(z_with_ends(looks), kMustReject) << stop.min_survival;
    }
  }
}

// What a policy may do with the confidences of places that were never verified: they say what was drafted in front of
// them. Here the next round ends at once where the last one was sure behind the place at which the next one starts.
ToySetup setup_that_hears_of_unverified_drafts(VerifyRule rule) {
  ToySetup setup = setup_of(rule, DraftKind::kModel, {});
  setup.main.context_spread = 0.3;
  setup.draft.context_spread = 1.0;
  setup.length = [](const PolicyView& view) {
    DraftStop stop{0.0f, 0, {0, 2}};
    if (!view.rounds.empty()) {
      const std::vector<float>& heard = view.rounds.back().confidences;
      const auto behind = static_cast<size_t>(view.n_accepted + 2);
      if (behind < heard.size() && heard[behind] > 0.65f) stop.min_survival = 0.99f;
    }
    return DraftChoice{3, DraftKind::kModel, 0, ends_where(stop)};
  };
  return setup;
}
TEST_P(DraftEnds, ConfidencesOfUnverifiedDraftsMayBeHeardOf) {
  const ToySetup setup = setup_that_hears_of_unverified_drafts(GetParam());
  EXPECT_LT(distance_with_ends(setup, kTextLen + 1), 1e-12);
  EXPECT_LT(z_with_ends(setup), kMayHappen);
}

// But not with noise that comes again: under both rules a draft is then no sample of q any more.
TEST_P(DraftEnds, NoiseOfAnEarlierRoundIsFound) {
  ToySetup faulty = setup_that_hears_of_unverified_drafts(GetParam());
  faulty.fault = Fault::kPositionOnlyNoise;
  EXPECT_GT(z_with_ends(faulty), kMustReject);
}

}  // namespace
}  // namespace bass
