// The last layer goes on only with rows that are read: with the bits that they have among all rows, and less work.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "cache/page_pool.h"
#include "executor/executor.h"
#include "support/data_file.h"

namespace bass {
namespace {

constexpr int kMaxLen = 64;
constexpr int kChunkPages = 2;  // of a sequence

/// A prompt's chunk that nobody asks for anything.
SegmentPlan chunk(std::span<const TokenId> tokens, std::span<const PageId> pages) {
  SegmentPlan segment;
  segment.tokens = segment.prompt = tokens;
  segment.pages = pages;
  segment.max_text_len = kMaxLen;
  return segment;
}

ExecutorOptions two_sequences(AttentionKind attention, int n_threads) {
  ExecutorOptions options;
  options.n_threads = n_threads;
  options.max_batch = 2;
  options.n_main_pages = options.n_draft_pages = 2 * kChunkPages;
  options.context_len = kMaxLen;
  options.attention = attention;
  return options;
}

using Case = std::tuple<std::string, AttentionKind, int>;

class LastLayerRows : public ::testing::TestWithParam<Case> {
 protected:
  ModelFile main_ = load_model_file(testing::data_file("architectures/" + std::get<0>(GetParam()) + ".gguf")).value();
  const ExecutorOptions options_ = two_sequences(std::get<1>(GetParam()), std::get<2>(GetParam()));
  const std::vector<TokenId> first_{5, 9, 20, 17, 40};
  const std::vector<TokenId> second_{7, 9, 31, 17, 22, 9, 3};
  const std::vector<PageId> first_pages_{0, 1}, second_pages_{2, 3};
};

INSTANTIATE_TEST_SUITE_P(Architectures, LastLayerRows,
                         ::testing::Combine(::testing::Values("gptj", "stablelm_parallel", "gptneox_parallel", "gemma2",
                                                              "mixtral_q8_0", "llama_window", "gpt2", "qwen3"),
                                            ::testing::Values(AttentionKind::kFused, AttentionKind::kSplit,
                                                              AttentionKind::kPad),
                                            ::testing::Values(1, 3)),
                         [](const auto& test) {
                           return fmt::format("{}_{}_{}threads", std::get<0>(test.param),
                                              static_cast<int>(std::get<1>(test.param)), std::get<2>(test.param));
                         });

TEST_P(LastLayerRows, HaveTheBitsThatTheyHaveAmongAll) {
  const std::unique_ptr<Executor> executor = make_cpu_executor(main_, nullptr, options_).value();
  const auto last_row = [&](bool wants_all) {
    StepPlan plan;
    plan.segments = {chunk(first_, first_pages_), chunk(second_, second_pages_)};
    plan.segments[1].wants_top5 = true;
    if (wants_all) {
      for (SegmentPlan& segment : plan.segments) segment.targets = segment.tokens;
    }
    return executor->wait(executor->submit(plan)).segments[1].top5;
  };
  const auto all = last_row(true);
  EXPECT_FALSE(all.empty());
  EXPECT_EQ(last_row(false), all);
}

TEST_P(LastLayerRows, OfADraftThatCatchesUpAreThoseOfOneThatFollowed) {
  const std::unique_ptr<Executor> executor = make_cpu_executor(main_, &main_, options_).value();
  StepPlan plan;
  plan.segments = {chunk(first_, first_pages_), chunk(second_, second_pages_)};
  for (SegmentPlan& segment : plan.segments) {
    segment.wants_sample = true;
    segment.n_model_drafts = 1;
    segment.draft_tokens = segment.tokens;
    segment.draft_pages = segment.pages;
    segment.sampling.temperature = 0;
  }
  const auto confidences = [&] {
    std::vector<std::vector<float>> found;
    for (const SegmentResult& result : executor->wait(executor->submit(plan)).segments) {
      found.push_back(result.confidences);
    }
    return found;
  };
  const auto at_once = confidences();
  for (SegmentPlan& segment : plan.segments) {  // what it has in its cache already: all but the last token
    segment.draft_start = static_cast<int>(segment.tokens.size()) - 1;
    segment.draft_tokens = segment.tokens.last(1);
  }
  EXPECT_EQ(confidences(), at_once);
  ASSERT_EQ(at_once.front().size(), 1U);
}

class LastLayerWork : public ::testing::Test {
 protected:
  Work work_of(void (*change)(SegmentPlan*)) {
    StepPlan plan;
    plan.segments = {chunk(prompt_, pages_)};
    change(&plan.segments.front());
    return executor_->wait(executor_->submit(plan)).work;
  }
  /// Of one row in the last layer behind the products of q, k and v, and of its norm.
  [[nodiscard]] double row_rest() const { return 2.0 * n_weights() + 6.0 * main_.config.d_model; }
  [[nodiscard]] double n_weights() const {
    const ModelConfig& config = main_.config;
    return 1.0 * config.d_model * config.q_dim() + 3.0 * config.d_model * config.d_ff;
  }
  [[nodiscard]] double head_weights() const { return 1.0 * main_.config.d_model * main_.config.vocab_size; }
  [[nodiscard]] double layer_kv_bytes() const {
    return 2.0 * main_.config.kv_dim() * n_tokens() * static_cast<double>(sizeof(uint16_t));
  }
  [[nodiscard]] int n_tokens() const { return static_cast<int>(prompt_.size()); }

  static void want_all(SegmentPlan* segment) { segment->targets = segment->tokens; }
  static void want_last(SegmentPlan* segment) { segment->wants_top5 = true; }
  static void want_none(SegmentPlan*) {}

 private:
  const std::vector<TokenId> prompt_{5, 9, 200, 17, 40, 9};
  const std::vector<PageId> pages_{0, 1};
  ModelFile main_ = load_model_file(testing::tiny_model(testing::kTinyModel)).value();
  std::unique_ptr<Executor> executor_ =
      make_cpu_executor(main_, nullptr, two_sequences(AttentionKind::kFused, 2)).value();
};

TEST_F(LastLayerWork, IsDoneForRowsThatAreRead) {
  const auto operations = [&](void (*change)(SegmentPlan*), int n_logit_rows) {
    return work_of(change)[OperationClass::kF32Fma] - 2 * n_logit_rows * head_weights();
  };
  const double all = operations(want_all, n_tokens());
  EXPECT_NEAR(all - operations(want_last, 1), (n_tokens() - 1) * row_rest(), 1e-6 * all);
  EXPECT_NEAR(all - operations(want_none, 0), n_tokens() * row_rest(), 1e-6 * all);
}

TEST_F(LastLayerWork, ReadsNoWeightsForNoRow) {
  const double with = work_of(want_last).bytes;
  const double expected = 4 * (head_weights() + n_weights()) + layer_kv_bytes();
  EXPECT_NEAR(with - work_of(want_none).bytes, expected, 0.02 * expected);  // norms and the like beside
}

}  // namespace
}  // namespace bass
