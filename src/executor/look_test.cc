// Segments that are looks (SegmentPlan::is_look), on a real executor with tiny models: they decode as if nothing had
// been drafted, and tell of their token what verification tells of it.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "executor/executor.h"
#include "support/data_file.h"

namespace bass {
namespace {

constexpr int kSequences = 24;  // of one prompt, each with noise of its own
constexpr int kLookPages = 1;   // of a sequence
constexpr int kTextLen = 32;

// By VerifyRule.
const std::array<std::string, 3> kRuleNames = {"rejection", "match", "block"};

enum class Drafter { kNobody, kModel, kHost };

/// Temperature and rule.
class Looks : public ::testing::TestWithParam<std::tuple<float, VerifyRule>> {
 protected:
  // One token is drafted, and looked at or verified.
  StepResult run(Drafter drafter, bool is_look) {
    std::array<PageId, kSequences> pages{};
    StepPlan plan;
    for (PageId i = 0; i < kSequences; ++i) {
      pages[static_cast<size_t>(i)] = i;
      SegmentPlan& segment = add_segment(std::span(pages).subspan(static_cast<size_t>(i), kLookPages), &plan);
      segment.sampling.temperature = std::get<0>(GetParam());
      segment.sampling.rule = std::get<1>(GetParam());
      segment.sampling.seed = static_cast<uint64_t>(i);
      segment.is_look = is_look;
      if (drafter == Drafter::kHost) segment.proposed = std::span(&likely_, 1);
      if (drafter != Drafter::kModel) continue;
      segment.draft_tokens = prompt_;
      segment.n_model_drafts = 1;
    }
    return executor_->wait(executor_->submit(plan));
  }
  // The token that is likeliest behind the prompt: that of the host's drafts.
  void find_likely() {
    StepPlan plan;
    const PageId page = 0;
    add_segment(std::span(&page, kLookPages), &plan).sampling.temperature = 0;
    likely_ = executor_->wait(executor_->submit(plan)).segments.front().tokens.front().id;
  }

 private:
  SegmentPlan& add_segment(std::span<const PageId> pages, StepPlan* plan) const {
    SegmentPlan& segment = plan->segments.emplace_back();
    segment.tokens = segment.prompt = prompt_;
    segment.pages = segment.draft_pages = pages;
    segment.max_text_len = kTextLen;
    segment.wants_sample = true;
    return segment;
  }

  const std::vector<TokenId> prompt_{5, 9, 200, 17, 40, 9};
  TokenId likely_ = 0;
  ModelFile main_ = load_model_file(testing::tiny_model(testing::kTinyModel)).value();
  ModelFile draft_ = load_model_file(testing::tiny_model("tiny_gqa_tied_q4_1")).value();
  const ExecutorOptions options_{.n_threads = 2,
                                 .max_batch = kSequences,
                                 .n_main_pages = kSequences * kLookPages,
                                 .n_draft_pages = kSequences * kLookPages,
                                 .context_len = kTextLen};
  std::unique_ptr<Executor> executor_ = make_cpu_executor(main_, &draft_, options_).value();
};

INSTANTIATE_TEST_SUITE_P(Rules, Looks,
                         ::testing::Combine(::testing::Values(0.0f, 0.8f, 1.0f),
                                            ::testing::Values(VerifyRule::kRejection, VerifyRule::kBlock,
                                                              VerifyRule::kMatch)),
                         [](const auto& test) {
                           return kRuleNames[static_cast<size_t>(std::get<1>(test.param))] + "_T" +
                                  std::to_string(static_cast<int>(10 * std::get<0>(test.param)));
                         });

TEST_P(Looks, DecodeAsIfNothingHadBeenDrafted) {
  find_likely();
  const StepResult regular = run(Drafter::kNobody, false);
  int n_longer = 0;
  for (const Drafter drafter : {Drafter::kModel, Drafter::kHost}) {
    const StepResult looked = run(drafter, true);
    const StepResult verified = run(drafter, false);
    for (size_t i = 0; i < kSequences; ++i) {
      const SegmentResult& segment = looked.segments[i];
      ASSERT_EQ(segment.tokens.size(), 1U);
      EXPECT_EQ(segment.n_drafted, 0);
      EXPECT_EQ(segment.n_accepted, 0);
      EXPECT_EQ(segment.n_looked_at, 1);
      EXPECT_EQ(segment.tokens[0].id, regular.segments[i].tokens[0].id);
      EXPECT_EQ(segment.tokens[0].logprob, regular.segments[i].tokens[0].logprob);
      EXPECT_EQ(segment.tokens[0].origin, TokenOrigin::kRegular);
      n_longer += verified.segments[i].tokens.size() > 1 ? 1 : 0;
    }
  }
  EXPECT_GT(n_longer, 0) << "the control: the same drafts, verified, are accepted";
}

TEST_P(Looks, TellWhatVerificationTells) {
  find_likely();
  const auto [temperature, rule] = GetParam();
  const bool has_same_noise = temperature == 0 || rule == VerifyRule::kMatch;
  int n_agreed = 0;
  for (const Drafter drafter : {Drafter::kModel, Drafter::kHost}) {
    const StepResult looked = run(drafter, true);
    const StepResult verified = run(drafter, false);
    for (size_t i = 0; i < kSequences; ++i) {
      const SegmentResult& look = looked.segments[i];
      const SegmentResult& draft = verified.segments[i];
      ASSERT_EQ(look.labels.size(), temperature > 0 ? 1U : 0U);
      ASSERT_EQ(draft.labels.size(), look.labels.size());
      EXPECT_EQ(look.confidences, draft.confidences);
      n_agreed += look.n_agreed;
      if (temperature > 0) {
        EXPECT_EQ(look.labels[0].chance, draft.labels[0].chance);
        EXPECT_EQ(look.labels[0].weight, 1);
      }
      if (has_same_noise) {
        EXPECT_EQ(look.n_agreed, draft.n_accepted);
      }
    }
  }
  if (has_same_noise) {
    EXPECT_GT(n_agreed, 0);
  }
}

TEST_P(Looks, AskNothingMoreOfTheMainModel) {
  find_likely();
  const double regular = run(Drafter::kNobody, false).work.total_operations();
  EXPECT_EQ(run(Drafter::kHost, true).work.total_operations(), regular);
  EXPECT_GT(run(Drafter::kHost, false).work.total_operations(), regular) << "the control";
}

}  // namespace
}  // namespace bass
