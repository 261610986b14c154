// Caches of floats (--kv-type f16, bf16): near the CPU's results, and the same texts with and without drafts, in every
// layout and batch. By the emulator; on a real GPU with BASS_TEST_GPU in the environment (tools/gpu_check.sh).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "support/emulated_gpu.h"
#include "support/engine_run.h"
#include "support/teacher_forced.h"
#include "support/temp_folder.h"
#include "support/test_models.h"

namespace bass::testing {
namespace {

using ::testing::HasSubstr;

class GpuFloatCache : public ::testing::TestWithParam<KvKind> {
 protected:
  [[nodiscard]] static EngineOptions options(const std::string& model, const std::string& draft = "") {
    EngineOptions options{.model_path = model, .draft_path = draft, .max_batch = 5, .n_threads = 2};
    options.context_len = 128;
    options.device = "cuda";
    options.kv = GetParam();
    return options;
  }
  [[nodiscard]] static bool is_bf16() { return GetParam() == KvKind::kBf16; }

 private:
  EmulatedUnlessGpu gpu_;
};
std::string cache_name(const ::testing::TestParamInfo<KvKind>& info) {
  return info.param == KvKind::kF16 ? "F16" : "Bf16";
}
INSTANTIATE_TEST_SUITE_P(Kind, GpuFloatCache, ::testing::Values(KvKind::kF16, KvKind::kBf16), cache_name);

/// Prompts of more than a page, samples that share one, both rules of drawing.
std::vector<Request> mixed_requests() {
  std::vector<Request> requests(4);
  for (size_t i = 0; i < requests.size(); ++i) {
    for (size_t t = 0; t < 5 + 20 * i; ++t) {
      requests[i].prompt_tokens.push_back(static_cast<TokenId>((t * t * 7 + i * 31 + t % 4) % 200));
    }
    requests[i].n = i == 2 ? 2 : 1;
    requests[i].max_tokens = 20;
    requests[i].seed = i;
    requests[i].sampling.temperature = i % 2 == 0 ? 0.0f : 0.8f;
    requests[i].sampling.ignore_eos = true;
    requests[i].speculation.verify = VerifyRule::kMatch;
    requests[i].speculation.draft_length = "fixed:3";
    requests[i].speculation.drafter = DrafterChoice::kModel;
  }
  return requests;
}

void expect_same_texts(const std::vector<RequestResult>& found, const std::vector<RequestResult>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].choices.size(), expected[i].choices.size());
    for (size_t k = 0; k < found[i].choices.size(); ++k) {
      EXPECT_EQ(found[i].choices[k].error, "");
      EXPECT_EQ(found[i].choices[k].tokens, expected[i].choices[k].tokens) << "request " << i;
      EXPECT_EQ(found[i].choices[k].logprobs, expected[i].choices[k].logprobs) << "request " << i;
    }
  }
}

// Random weights make sharp distributions of little differences: of a trained model the mean is a tenth of these
// (docs/cuda.md). The cache is all that differs.
TEST_P(GpuFloatCache, IsNearTheCpu) {
  for (const char* model : {"tiny/tiny_gqa_tied_f32", "tiny/tiny_gqa_tied_q8_0", "architectures/gpt2",
                            "architectures/gemma2", "architectures/phi3_window", "architectures/qwen2_gqa_tied"}) {
    SCOPED_TRACE(model);
    EngineOptions on_gpu = options(data_file(std::string(model) + ".gguf"));
    on_gpu.activations = ActivationKind::kInt16;
    EngineOptions on_cpu = on_gpu;
    on_cpu.device = "cpu";
    on_cpu.kv = KvKind::kInt16;
    constexpr int kVocabSize = 100;
    const ScoreDistance distance = distance_of(score(on_gpu, kVocabSize), score(on_cpu, kVocabSize));
    const double max_mean = is_bf16() ? 0.04 : 0.005;
    EXPECT_LT(distance.mean, max_mean);
    EXPECT_LT(distance.largest, 10 * max_mean);
    EXPECT_GT(distance.mean, 0) << "these are not the CPU's bits";
    EXPECT_LE(distance.other_best, 0.05);
  }
}

TEST_P(GpuFloatCache, TextsDependOnNoBatchNoDraftAndNoLayout) {
  const std::string model = tiny_model("tiny_gqa_untied_q4_0");
  EngineOptions engine_options = options(model, model);
  const auto engine = load_engine(engine_options);
  ASSERT_NE(engine, nullptr);
  std::vector<Request> requests = mixed_requests();
  const std::vector<RequestResult> together = run_all(*engine, requests);
  EXPECT_GT(engine->stats().speculation.accepted, 0);
  for (const AttentionKind attention : {AttentionKind::kPad, AttentionKind::kSplit, AttentionKind::kSplitGrouped}) {
    SCOPED_TRACE(static_cast<int>(attention));
    engine_options.attention = attention;
    const auto other = load_engine(engine_options);
    ASSERT_NE(other, nullptr);
    expect_same_texts(run_all(*other, requests), together);
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].speculation.drafter = DrafterChoice::kOff;
    expect_same_texts(run_all(*engine, {requests[i]}), {together[i]});
  }
  // Negative control: the other cache has other log-probabilities.
  engine_options.kv = is_bf16() ? KvKind::kF16 : KvKind::kBf16;
  const auto other = load_engine(engine_options);
  ASSERT_NE(other, nullptr);
  EXPECT_NE(run_all(*other, {requests[0]})[0].choices[0].logprobs, together[0].choices[0].logprobs);
}

// Those that read hidden states keep them in the same pages.
TEST_P(GpuFloatCache, DraftsThatReadHiddenStatesChangeNothing) {
  const auto engine = load_engine(options(tiny_model("tiny_gqa_tied_f32"), data_file("tiny/draft_feature_q8_0.gguf")));
  ASSERT_NE(engine, nullptr);
  std::vector<Request> requests = mixed_requests();
  const std::vector<RequestResult> with_drafts = run_all(*engine, requests);
  EXPECT_GT(engine->stats().speculation.drafted, 0);
  for (Request& request : requests) request.speculation.drafter = DrafterChoice::kOff;
  expect_same_texts(run_all(*engine, requests), with_drafts);
}

TEST_P(GpuFloatCache, TakesTwoBytesANumber) {
  const auto engine = load_engine(options(tiny_model("tiny_gqa_tied_f32")));
  ASSERT_NE(engine, nullptr);
  const ModelInfo model = engine->model_info();
  EXPECT_EQ(model.kv_bytes_per_token, 2 * 2 * model.n_layers * model.n_kv_heads * model.head_dim);
}

TEST_P(GpuFloatCache, TheCpuHasNone) {
  EngineOptions cpu = options(tiny_model("tiny_gqa_tied_f32"));
  cpu.device = "cpu";
  const Result<std::unique_ptr<Engine>> engine = Engine::load(cpu);
  ASSERT_FALSE(engine.ok());
  EXPECT_THAT(engine.status().message(), HasSubstr("on the CPU use int16"));
}

}  // namespace
}  // namespace bass::testing
