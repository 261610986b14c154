// Engines that read the weights of another one. Whether they do is seen by taking the files away: who would read them
// again finds none.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "support/engine_run.h"
#include "support/made_up_prompt.h"
#include "support/temp_folder.h"

namespace bass::testing {
namespace {

class SharedWeights : public ::testing::Test {
 protected:
  /// Of copies that can be removed.
  EngineOptions options_of(const std::string& main, const std::string& draft) {
    EngineOptions options{.model_path = copy_of(main), .n_threads = 2, .context_len = 256, .device = "cpu"};
    if (!draft.empty()) options.draft_path = copy_of(draft);
    return options;
  }
  void remove_files() {
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      std::filesystem::remove(entry.path());
    }
  }
  static std::vector<RequestResult> run(Engine& engine) {
    std::vector<Request> requests;
    for (int i = 0; i < 6; ++i) {
      requests.push_back(greedy_request(prompt_of(i, 3 + i), 12));
      requests.back().speculation.draft_length = "fixed:2";
    }
    return run_all(engine, requests);
  }
  std::string copy_of(const std::string& name) {
    const std::string path = folder_ / (name + ".gguf");
    std::filesystem::copy_file(tiny_model(name), path, std::filesystem::copy_options::skip_existing);
    return path;
  }

  TempFolder folder_;
};

struct Models {
  std::string main, draft, quantize;
};

// The drafts: none, one of any kind, one that reads its main model's head and hidden states, and ones with weights made
// in memory, which are gone when they are packed.
TEST_F(SharedWeights, OfBothModelsGiveTheSameBitsWithoutTheFilesAndOutliveTheirFirstEngine) {
  for (const Models& models :
       {Models{"tiny_gqa_tied_f32", "", "none"}, Models{"tiny_gqa_tied_f32", "draft_padded", "none"},
        Models{"tiny_gqa_tied_f32", "draft_feature_f32", "none"},
        Models{"tiny_gqa_tied_f32", "draft_feature_f32", "q8_0"}, Models{"tiny_mha_untied_f32", "", "q4_1"}}) {
    EngineOptions options = options_of(models.main, models.draft);
    options.quantize = models.quantize;
    auto first = load_engine(options);
    ASSERT_NE(first, nullptr);
    remove_files();
    EXPECT_EQ(Engine::load(options).status().code(), StatusCode::kInvalidFile);

    options.weights_from = first.get();
    options.n_threads = 3;
    options.kv = KvKind::kInt8;  // what is not weights may differ
    ASSERT_NE(load_engine(options), nullptr);
    options.n_threads = 1;
    options.kv = KvKind::kInt16;
    auto second = load_engine(options);
    ASSERT_NE(second, nullptr);
    EXPECT_EQ(second->options().weights_from, nullptr);
    EXPECT_EQ(second->draft_info().has_value(), !models.draft.empty());

    const std::vector<RequestResult> expected = run(*first);
    first = nullptr;
    expect_same_outputs(expected, run(*second));
    options.weights_from = second.get();
    auto third = load_engine(options);
    ASSERT_NE(third, nullptr);
    expect_same_outputs(expected, run(*third));
  }
}

TEST_F(SharedWeights, OfTheMainModelServeAnEngineWithAnotherDraftOrNone) {
  const EngineOptions plain = options_of("tiny_gqa_tied_f32", "");
  EngineOptions drafting = options_of("tiny_gqa_tied_f32", "draft_feature_f32");
  auto without = load_engine(plain);
  std::filesystem::remove(plain.model_path);
  drafting.weights_from = without.get();
  auto with = load_engine(drafting);
  ASSERT_NE(with, nullptr);
  EngineOptions other = plain;
  other.draft_path = copy_of("draft_padded");
  other.weights_from = with.get();
  auto with_other = load_engine(other);
  ASSERT_NE(with_other, nullptr);
  EngineOptions none = plain;
  none.weights_from = with_other.get();
  auto without_again = load_engine(none);
  ASSERT_NE(without_again, nullptr);

  const std::vector<RequestResult> expected = run(*without);
  for (Engine* engine : {with.get(), with_other.get(), without_again.get()})
    expect_same_outputs(expected, run(*engine));
  EXPECT_GT(with->stats().speculation.drafted, 0);
}

TEST_F(SharedWeights, OfOtherFilesOrTypesAreNotTaken) {
  EngineOptions options = options_of("tiny_gqa_tied_f32", "");
  const auto first = load_engine(options);
  options.weights_from = first.get();

  EngineOptions other = options;
  other.model_path = copy_of("tiny_mha_untied_f32");
  const auto of_other = load_engine(other);
  ASSERT_NE(of_other, nullptr);
  EXPECT_EQ(of_other->model_info().path, other.model_path);

  EngineOptions quantised = options;
  quantised.quantize = "q8_0";
  const auto of_bytes = load_engine(quantised);
  ASSERT_NE(of_bytes, nullptr);
  EXPECT_LT(of_bytes->model_info().step_bytes, first->model_info().step_bytes);

  remove_files();
  EXPECT_EQ(Engine::load(quantised).status().code(), StatusCode::kInvalidFile);
}

}  // namespace
}  // namespace bass::testing
