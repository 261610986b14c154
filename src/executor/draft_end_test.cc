// Where SegmentPlan::stop ends a draft, on a real executor with tiny models: by the confidences that it returns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "executor/executor.h"
#include "support/data_file.h"

namespace bass {
namespace {

constexpr int kDrafts = 6;
constexpr int kPages = 2;  // of a sequence
constexpr ConfidenceTerms kTerms{1.0f, 0.7f};

/// Sequences of one prompt, each drafting at most kDrafts tokens with an end of its own.
class DraftEnds : public ::testing::TestWithParam<VerifyRule> {
 protected:
  std::vector<SegmentResult> run(const std::vector<DraftStop>& stops) {
    std::vector<std::array<PageId, kPages>> pages;
    for (PageId page = 0; page < static_cast<PageId>(stops.size() * kPages); page += kPages) {
      pages.push_back({page, page + 1});
    }
    StepPlan plan;
    for (size_t i = 0; i < stops.size(); ++i) {
      SegmentPlan& segment = plan.segments.emplace_back();
      segment.tokens = segment.draft_tokens = prompt_;
      segment.pages = segment.draft_pages = pages[i];
      segment.max_text_len = 64;
      segment.wants_sample = true;
      segment.n_model_drafts = kDrafts;
      segment.stop = stops[i];
      segment.sampling.temperature = 0.8f;
      segment.sampling.seed = 3;
      segment.sampling.rule = GetParam();
      segment.prompt = prompt_;
    }
    return executor_->wait(executor_->submit(plan)).segments;
  }
  /// Of a draft that never ends early.
  std::vector<float> confidences() { return run({DraftStop{}}).front().confidences; }

  /// The chance of all tokens up to each, written out. [confidences.size()]
  static std::vector<double> survivals(const std::vector<float>& confidences) {
    std::vector<double> all;
    double survival = 1;
    for (const double confidence : confidences) {
      const double log_odds = kTerms.bias + kTerms.slope * std::log(confidence / (1 - confidence));
      all.push_back(survival *= 1 / (1 + std::exp(-log_odds)));
    }
    return all;
  }

 private:
  const std::vector<TokenId> prompt_{5, 9, 200, 17, 40, 9};
  ModelFile main_ = load_model_file(testing::tiny_model(testing::kTinyModel)).value();
  ModelFile draft_ = load_model_file(testing::tiny_model("tiny_gqa_tied_q4_1")).value();
  const ExecutorOptions options_{
      .n_threads = 2, .max_batch = 8, .n_main_pages = 16, .n_draft_pages = 16, .context_len = 64};
  std::unique_ptr<Executor> executor_ = make_cpu_executor(main_, &draft_, options_).value();
};

INSTANTIATE_TEST_SUITE_P(Rules, DraftEnds,
                         ::testing::Values(VerifyRule::kRejection, VerifyRule::kBlock, VerifyRule::kMatch),
                         [](const auto& test) { return "Rule" + std::to_string(static_cast<int>(test.param)); });

// Everybody's tokens are drawn with the same noise, so that drafts are the same up to where they end.
TEST_P(DraftEnds, AreInFrontOfTheFirstTokenBelowTheMinimum) {
  const std::vector<float> all = confidences();
  ASSERT_EQ(all.size(), static_cast<size_t>(kDrafts));
  const std::vector<double> survival = survivals(all);
  std::vector<DraftStop> stops(1);           // the first never ends
  for (int len = 0; len < kDrafts; ++len) {  // below the token in front, and above what comes behind
    const auto i = static_cast<size_t>(len);
    const double before = len == 0 ? 1 : survival[i - 1];
    const double most = before * DraftStop::kBestChance;
    ASSERT_LT(survival[i], most) << "the draft would have ended behind the token in front";
    stops.push_back({static_cast<float>((survival[i] + most) / 2), 0, kTerms});
  }
  const std::vector<SegmentResult> results = run(stops);
  EXPECT_EQ(results[0].n_drafted, kDrafts);
  EXPECT_EQ(results[0].confidences, all);
  for (int len = 0; len < kDrafts; ++len) {
    const SegmentResult& result = results[static_cast<size_t>(1 + len)];
    EXPECT_EQ(result.n_drafted, len);
    EXPECT_EQ(result.confidences, std::vector<float>(all.begin(), all.begin() + len + 1)) << "the dropped one, too";
    EXPECT_EQ(result.n_draft_cached, len) << "the last was fed to find the dropped one";
    EXPECT_EQ(result.tokens.size(), static_cast<size_t>(result.n_accepted + 1));
    EXPECT_LE(result.n_accepted, len);
  }
}

TEST_P(DraftEnds, AreBehindATokenThatNoneIsWorthToFollow) {
  const std::vector<float> all = confidences();
  const double second = survivals(all)[1];
  const float least = static_cast<float>(second * (1 + DraftStop::kBestChance) / 2);
  const std::vector<SegmentResult> results = run({DraftStop{least, 0, kTerms}, {}});
  EXPECT_EQ(results[0].n_drafted, 2);
  EXPECT_EQ(results[0].confidences, std::vector<float>(all.begin(), all.begin() + 2)) << "none was dropped";
  EXPECT_EQ(results[0].n_draft_cached, 1);
  EXPECT_EQ(results[1].n_drafted, kDrafts);
  EXPECT_EQ(results[1].confidences, all);
}

// A sequence whose drafts are better than others' (offset) drafts more at the same minimum.
TEST_P(DraftEnds, AreLaterForSequencesOfGoodDrafts) {
  std::vector<DraftStop> stops;
  for (const float offset : {-8.0f, 0.0f, 8.0f}) stops.push_back({0.2f, offset, kTerms});
  const std::vector<SegmentResult> results = run(stops);
  EXPECT_EQ(results[0].n_drafted, 0);
  EXPECT_EQ(results[2].n_drafted, kDrafts);
  EXPECT_GE(results[1].n_drafted, results[0].n_drafted);
  EXPECT_LE(results[1].n_drafted, results[2].n_drafted);
}

}  // namespace
}  // namespace bass
