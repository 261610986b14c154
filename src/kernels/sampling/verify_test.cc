#include "kernels/sampling/verify.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string_view>

#include "kernels/sampling/chi_square.h"
#include "kernels/sampling/toy_model.h"

namespace bass {
namespace {

using testing::chi_square_z;
using testing::DraftKind;
using testing::Fault;
using testing::fixed_length;
using testing::kMayHappen;
using testing::kMustReject;
using testing::PolicyView;
using testing::Tokens;
using testing::ToyDecoder;
using testing::ToyModel;
using testing::ToySetup;

constexpr size_t kTextLen = 3;
// Sanitizers are slow and look for something else; the controls are still rejected with fewer texts.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint64_t kTexts = 40000;
#else
constexpr uint64_t kTexts = 200000;
#endif

const cpu::Kernels* kernels() { return cpu::select_kernels().value(); }

// Any function of what is known before a round's first draft is drawn is allowed.
int length_by_accepted(const PolicyView& view) { return view.n_accepted < 0 ? 2 : (view.n_accepted * 2 + 1) % 5; }

ToySetup rejection_setup() {
  ToySetup setup;
  setup.main.id = 1;
  setup.draft.id = 2;
  setup.params.rule = VerifyRule::kRejection;
  return setup;
}

// Independent of the code under test: products of softmaxes in double precision.
std::vector<double> exact_joint(const ToyModel& model) {
  std::vector<double> joint{1.0};
  std::vector<Tokens> prefixes{{}};
  for (size_t i = 0; i < kTextLen; ++i) {
    std::vector<double> next;
    std::vector<Tokens> next_prefixes;
    for (size_t j = 0; j < joint.size(); ++j) {
      const std::vector<float> logits = model.logits(prefixes[j]);
      double sum = 0;
      for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
      for (size_t token = 0; token < logits.size(); ++token) {
        next.push_back(joint[j] * std::exp(static_cast<double>(logits[token])) / sum);
        next_prefixes.push_back(prefixes[j]);
        next_prefixes.back().push_back(static_cast<TokenId>(token));
      }
    }
    joint = next;
    prefixes = next_prefixes;
  }
  return joint;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

double sampled_z(const ToySetup& setup, const std::vector<double>& expected) {
  ToyDecoder decoder(kernels(), setup);
  std::vector<int64_t> counts(expected.size());
  for (uint64_t seed = 0; seed < kTexts; ++seed) ++counts[decoder.index_of(decoder.generate(seed, kTextLen))];
  return chi_square_z(counts, expected);
}

// The setups over which exactness is shown: model drafts, one-hot drafts, a smaller draft vocabulary, a draft
// that is the main model, and processors that cut both distributions.
std::vector<std::pair<const char*, ToySetup>> exact_setups() {
  std::vector<std::pair<const char*, ToySetup>> setups;
  setups.emplace_back("model", rejection_setup());
  setups.emplace_back("one-hot", rejection_setup());
  setups.back().second.draft_kind = DraftKind::kOneHot;
  setups.emplace_back("smaller vocabulary", rejection_setup());
  setups.back().second.draft.n_vocab = 3;
  setups.emplace_back("main model as draft", rejection_setup());
  setups.back().second.draft = setups.back().second.main;
  setups.emplace_back("processors", rejection_setup());
  setups.back().second.params.temperature = 0.7f;
  setups.back().second.params.top_k = 3;
  setups.back().second.params.top_p = 0.9f;
  setups.back().second.params.frequency_penalty = 0.4f;
  setups.back().second.params.repetition_penalty = 1.2f;
  return setups;
}

TEST(Rejection, JointDistributionEnumeratedExactly) {
  for (auto& [name, setup] : exact_setups()) {
    const bool has_processors = setup.params.top_k > 0;
    for (int len = 0; len <= 5; ++len) {
      setup.length = len <= 4 ? fixed_length(len) : length_by_accepted;
      ToyDecoder decoder(kernels(), setup);
      const std::vector<double> expected = has_processors ? decoder.main_joint(kTextLen) : exact_joint(setup.main);
      EXPECT_LT(largest_difference(decoder.enumerate(kTextLen), expected), 1e-6) << name << " " << len;
    }
  }
}

TEST(Rejection, EnumerationRejectsTheControls) {
  for (const Fault fault : {Fault::kResidualFromMain, Fault::kDropUnlikelyDrafts}) {
    for (int len = 1; len <= 4; ++len) {
      ToySetup setup = rejection_setup();
      setup.length = fixed_length(len);
      setup.fault = fault;
      ToyDecoder decoder(kernels(), setup);
      EXPECT_GT(largest_difference(decoder.enumerate(kTextLen), exact_joint(setup.main)), 1e-3) << len;
    }
  }
}

// Chi-square of the joint distribution of 3 tokens, drawn through the real random numbers.
TEST(Rejection, JointDistributionSampled) {
  for (auto& [name, setup] : exact_setups()) {
    for (int len = 0; len <= 5; ++len) {
      if (std::string_view(name) != "model" && len != 2 && len != 5) continue;  // two lengths are enough for the others
      setup.length = len <= 4 ? fixed_length(len) : length_by_accepted;
      const std::vector<double> expected = ToyDecoder(kernels(), setup).main_joint(kTextLen);
      EXPECT_LT(sampled_z(setup, expected), kMayHappen) << name << " " << len;
    }
  }
}

// A larger vocabulary, in which a residual has several tokens.
ToySetup wide_setup() {
  ToySetup setup = rejection_setup();
  setup.main.n_vocab = setup.draft.n_vocab = 8;
  setup.main.spread = setup.draft.spread = 2.0;
  setup.length = fixed_length(3);
  return setup;
}

TEST(Rejection, DraftAndResidualMustNotShareNoise) {
  ToySetup setup = wide_setup();
  const std::vector<double> expected = exact_joint(setup.main);
  EXPECT_LT(sampled_z(setup, expected), kMayHappen);
  setup.fault = Fault::kSharedNoise;
  EXPECT_GT(sampled_z(setup, expected), kMustReject);
}

// A policy that reads what an earlier round drafted, unverified, at the position where the next round starts. That is
// harmless as long as the round draws new noise, and a bias when it does not.
TEST(Rejection, NoiseMustNotComeAgainInALaterRound) {
  ToySetup setup = rejection_setup();
  setup.main.context_spread = setup.draft.context_spread = 0.3;
  setup.length = [](const PolicyView& view) { return view.n_accepted < 0 ? 3 : view.earlier_draft == 0 ? 0 : 2; };
  const std::vector<double> expected = exact_joint(setup.main);
  EXPECT_LT(sampled_z(setup, expected), kMayHappen);
  setup.fault = Fault::kPositionOnlyNoise;
  EXPECT_GT(sampled_z(setup, expected), kMustReject);
}

TEST(Rejection, SamplingRejectsTheOtherControls) {
  for (const Fault fault : {Fault::kResidualFromMain, Fault::kDropUnlikelyDrafts, Fault::kTakeUnverified}) {
    ToySetup setup = rejection_setup();
    setup.length = fixed_length(2);
    setup.fault = fault;
    EXPECT_GT(sampled_z(setup, exact_joint(setup.main)), kMustReject) << static_cast<int>(fault);
  }
}

// The controls run through the rule as the toy decoder writes it out: without a fault that is the real one.
TEST(Rejection, TheControlsDifferByTheirFaultOnly) {
  ToySetup setup = wide_setup();
  ToyDecoder real(kernels(), setup);
  setup.fault = Fault::kNoneWrittenOut;
  ToyDecoder written_out(kernels(), setup);
  for (uint64_t seed = 0; seed < 2000; ++seed) EXPECT_EQ(real.generate(seed, 12), written_out.generate(seed, 12));
}

TEST(Rejection, WithoutDraftsItIsRegularDecoding) {
  ToySetup setup = rejection_setup();
  ToySetup match = setup;
  match.params.rule = VerifyRule::kMatch;
  ToyDecoder a(kernels(), setup), b(kernels(), match);
  for (uint64_t seed = 0; seed < 500; ++seed) EXPECT_EQ(a.generate(seed, 20), b.generate(seed, 20));
}

// --- match

std::vector<ToySetup> match_setups() {
  std::vector<ToySetup> setups;
  for (auto& [name, setup] : exact_setups()) {
    for (const float temperature : {0.0f, 0.7f, 1.0f}) {
      setup.params.temperature = temperature;
      setup.params.rule = VerifyRule::kMatch;
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
  ToySetup setup = rejection_setup();
  setup.params.rule = VerifyRule::kMatch;
  ToyDecoder regular(kernels(), setup);
  setup.length = fixed_length(2);
  setup.fault = Fault::kTakeUnverified;
  ToyDecoder faulty(kernels(), setup);
  int n_different = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) n_different += faulty.generate(seed, 24) != regular.generate(seed, 24);
  EXPECT_GT(n_different, 90);
}

TEST(Match, SamplesTheMainModel) {
  ToySetup setup = rejection_setup();
  setup.params.rule = VerifyRule::kMatch;
  setup.length = fixed_length(3);
  EXPECT_LT(sampled_z(setup, exact_joint(setup.main)), kMayHappen);
}

// --- single rows

TEST(VerifyRow, GreedyComparesUnderEveryRule) {
  const std::vector<float> logits{1, 4, 2};
  RowSampler sampler(kernels(), 3);
  for (const VerifyRule rule : {VerifyRule::kRejection, VerifyRule::kMatch}) {
    SamplingParams params;
    params.temperature = 0;
    params.rule = rule;
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
