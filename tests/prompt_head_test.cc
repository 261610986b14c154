// A prompt's own tokens join the head of a draft whose vocabulary lacks them: against drafts that have them all.
#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <set>

#include "executor/cpu/forward.h"
#include "executor/cpu/prompt_head.h"
#include "model/model_file.h"
#include "support/engine_run.h"
#include "support/temp_folder.h"
#include "support/test_models.h"

namespace bass::testing {
namespace {

constexpr int kVocabSize = 288;
constexpr const char* kVocabulary = "bass-draft.vocabulary";

std::vector<int32_t> vocabulary_of(const std::string& path) {
  return load_model_file(path).value().config.main->vocabulary;
}

/// The draft with another vocabulary; an empty one: all tokens.
void write_draft(const std::string& source, const std::vector<int32_t>& vocabulary, const std::string& path) {
  ModelEdit edit{.without = kVocabulary};
  if (!vocabulary.empty()) edit.add = [&](GgufBuilder& builder) { builder.add_i32s(kVocabulary, vocabulary); };
  write_edited_model(source, edit, path);
}

std::vector<int32_t> united(const std::vector<int32_t>& a, const std::vector<TokenId>& b) {
  std::set<int32_t> ids(a.begin(), a.end());
  ids.insert(b.begin(), b.end());
  return {ids.begin(), ids.end()};
}

class PromptHeads : public ::testing::TestWithParam<std::string> {
 protected:
  [[nodiscard]] static std::string draft() { return tiny_model(GetParam()); }
  const TempFolder folder_;
  std::mt19937 rng_{11};

  std::vector<TokenId> random_tokens(size_t n) {
    std::vector<TokenId> tokens(n);
    for (TokenId& token : tokens) token = static_cast<TokenId>(3 + rng_() % 277);
    return tokens;
  }
};
INSTANTIATE_TEST_SUITE_P(Drafts, PromptHeads,
                         ::testing::Values("draft_feature_q8_0", "draft_shallow_input_f32", "draft_head_q4_0"),
                         [](const auto& test) { return test.param; });

/// A draft without main model's states: its forward pass over some tokens.
class DraftPass {
 public:
  explicit DraftPass(const std::string& path)
      : main_file_(load_model_file(tiny_model(kTinyModel)).value()), file_(load_model_file(path).value()) {
    const auto n_taps = static_cast<int>(file_.config.main->tap_layers.size());
    main_ = cpu::CpuModel::load(main_file_, {KvKind::kInt16, 4, 128, n_taps}, &team_).value();
    draft_ = cpu::CpuModel::load(file_, {KvKind::kInt16, 4, 128}, &team_, main_.get()).value();
    const cpu::ForwardOptions options{.max_rows = 64, .n_planes = 1, .n_threads = 3};
    forward_ = std::make_unique<cpu::CpuForward>(draft_.get(), cpu::select_kernels().value(), options);
    forward_->make_room_for_more();
    EXPECT_TRUE(forward_->ok());
  }

  [[nodiscard]] const cpu::CpuModel& draft() const { return *draft_; }
  ThreadTeam& team() { return team_; }

  /// more: of each token's row. [tokens.size(), row_len]
  std::vector<float> logits(const std::vector<TokenId>& tokens, const std::vector<const cpu::PackedMatrix*>& more,
                            int row_len) {
    static constexpr PageId kPageIds[] = {2, 0, 3, 1};
    draft_->prepare_positions(128);
    forward_->begin_batch();
    forward_->reserve(1, 4);
    forward_->add_segment(0, /*is_decode=*/true, kPageIds, 128, kPageIds);
    for (const TokenId token : tokens) forward_->add_token(token);
    forward_->end_batch();
    std::vector<int> rows(tokens.size());
    std::iota(rows.begin(), rows.end(), 0);
    std::vector<float> out(tokens.size() * static_cast<size_t>(row_len), -99.0f);
    team_.run([&](const TeamContext& context) {
      forward_->run(context);
      forward_->logits(context, rows, more, row_len, out.data());
    });
    return out;
  }

 private:
  ThreadTeam team_{3};
  ModelFile main_file_, file_;
  std::unique_ptr<cpu::CpuModel> main_, draft_;
  std::unique_ptr<cpu::CpuForward> forward_;
};

// Rows of several prompts in one block, neighbours with and without the same one, and rows without any.
TEST_P(PromptHeads, LogitsAreThoseOfAHeadWithAllTokens) {
  const std::string all_path = folder_ / "all.gguf";
  write_draft(draft(), {}, all_path);
  DraftPass all(all_path), part(draft());
  const std::vector<int32_t> vocabulary = vocabulary_of(draft());
  std::vector<std::unique_ptr<cpu::CpuPromptHead>> heads;
  for (const size_t n : {200, 3, 60}) {
    const std::vector<int32_t> ids = cpu::tokens_beside(vocabulary, random_tokens(n), 1024);
    cpu::HeadRows rows = part.draft().weights().more_head_rows(ids, &part.team()).value();
    heads.push_back(std::make_unique<cpu::CpuPromptHead>(vocabulary, ids, std::move(rows)));
  }
  const std::vector<int> head_of{0, 0, 1, -1, 2, 2, 2, 2, 2, 0, 1, 1, -1, -1, 0, 2};
  const std::vector<TokenId> tokens = random_tokens(head_of.size());
  std::vector<const cpu::PackedMatrix*> more;
  for (const int head : head_of) more.push_back(head < 0 ? nullptr : &heads[static_cast<size_t>(head)]->matrix());
  const std::vector<float> expected = all.logits(tokens, {}, kVocabSize);
  const std::vector<float> found = part.logits(tokens, more, kVocabSize);
  const float* want = expected.data();
  const float* got = found.data();
  for (size_t i = 0; i < tokens.size(); ++i, want += kVocabSize, got += kVocabSize) {
    std::span<const int32_t> ids = vocabulary;
    if (head_of[i] >= 0) ids = heads[static_cast<size_t>(head_of[i])]->proposable();
    for (size_t k = 0; k < ids.size(); ++k) EXPECT_EQ(got[k], want[ids[k]]) << "row " << i << " token " << ids[k];
    if (ids.size() < kVocabSize) {
      EXPECT_EQ(got[ids.size()], -99.0f) << "row " << i;
    }
  }
}

void expect_same(const RequestResult& expected, const RequestResult& found) {
  ASSERT_EQ(expected.choices.size(), found.choices.size());
  for (size_t i = 0; i < expected.choices.size(); ++i) {
    const ChoiceResult& a = expected.choices[i];
    const ChoiceResult& b = found.choices[i];
    EXPECT_EQ(a.tokens, b.tokens);
    EXPECT_EQ(a.logprobs, b.logprobs);
    EXPECT_EQ(a.origins, b.origins);  // so the drafts are the same, and what was accepted of them
    EXPECT_EQ(a.stats.speculation.drafted, b.stats.speculation.drafted);
  }
}

bool has_same_origins(const RequestResult& a, const RequestResult& b) {
  return std::equal(a.choices.begin(), a.choices.end(), b.choices.begin(),
                    [](const ChoiceResult& x, const ChoiceResult& y) { return x.origins == y.origins; });
}

// The vocabulary is small, and what prompts have is likely: tokens beside the vocabulary are often drafted and
// accepted. Every prompt alone with a draft whose vocabulary has its tokens is the brute force for all of them in one
// batch.
TEST_P(PromptHeads, ABatchDraftsWhatEachPromptsOwnVocabularyDoes) {
  std::vector<int32_t> vocabulary;
  for (int32_t id = 0; id < kVocabSize; id += 5) vocabulary.push_back(id);
  const std::string small = folder_ / "small.gguf";
  write_draft(draft(), vocabulary, small);
  std::vector<Request> requests;
  for (const size_t prompt_len : {40, 5, 70, 33, 12}) {
    Request& request = requests.emplace_back(greedy_request(random_tokens(prompt_len), 24));
    request.speculation.drafter = DrafterChoice::kModel;
    request.speculation.draft_length = "fixed:3";
    request.seed = prompt_len;
    for (const TokenId token : request.prompt_tokens) request.sampling.logit_bias.emplace_back(token, 4.0f);
    request.n = 3;
  }
  auto batch =
      load_engine({.model_path = tiny_model(kTinyModel), .draft_path = small, .max_batch = 11, .n_threads = 2});
  std::vector<std::unique_ptr<Engine>> alone;
  for (const Request& request : requests) {
    const std::string path = folder_ / "draft.gguf";
    write_draft(draft(), united(vocabulary, request.prompt_tokens), path);
    alone.push_back(
        load_engine({.model_path = tiny_model(kTinyModel), .draft_path = path, .max_batch = 1, .n_threads = 1}));
  }
  int n_other = 0;
  for (const VerifyRule rule : {VerifyRule::kMatch, VerifyRule::kRejection, VerifyRule::kBlock}) {
    for (const float temperature : {0.0f, 1.0f}) {
      for (Request& request : requests) {
        request.sampling.temperature = temperature;
        request.sampling.repetition_penalty = rule == VerifyRule::kBlock ? 1.1f : 1.0f;
        request.speculation.verify = rule;
      }
      const std::vector<RequestResult> together = run_all(*batch, requests);
      for (size_t i = 0; i < requests.size(); ++i) {
        expect_same(run_one(*alone[i], requests[i]), together[i]);
        n_other += !has_same_origins(run_one(*alone[(i + 1) % requests.size()], requests[i]), together[i]);
      }
    }
  }
  EXPECT_GT(n_other, 3) << "another prompt's tokens make no difference: the test proves nothing";
}

}  // namespace
}  // namespace bass::testing
