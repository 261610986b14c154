// Products by the device's library (--activations bf16, w8a8, fp8): near the CPU's results, where its bits cannot be.
// By the emulator; on a real GPU with BASS_TEST_GPU in the environment (tools/gpu_check.sh).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "support/emulated_gpu.h"
#include "support/engine_run.h"
#include "support/teacher_forced.h"
#include "support/temp_folder.h"
#include "support/test_models.h"

namespace bass::testing {
namespace {

class GpuLibrary : public ::testing::TestWithParam<ActivationKind> {
 protected:
  [[nodiscard]] static EngineOptions options(const std::string& model, const std::string& draft = "") {
    EngineOptions options{.model_path = model, .draft_path = draft, .max_batch = 4, .n_threads = 2};
    options.context_len = 128;
    options.device = "cuda";
    options.activations = GetParam();
    return options;
  }

 private:
  EmulatedUnlessGpu gpu_;
};

/// Whose sums do not depend on the library's order.
class GpuExactLibrary : public GpuLibrary {};
INSTANTIATE_TEST_SUITE_P(Kind, GpuExactLibrary, ::testing::Values(ActivationKind::kW8A8));

/// How far off other forms are, bfloat16 being 1, which rounds by up to 2^-8: int8 with one scale a row, and e4m3,
/// which rounds by up to 2^-4.
double coarseness(ActivationKind kind) {
  return kind == ActivationKind::kBf16 ? 1 : kind == ActivationKind::kW8A8 ? 4 : 14;
}

std::string kind_name(const ::testing::TestParamInfo<ActivationKind>& info) {
  return info.param == ActivationKind::kBf16 ? "Bf16" : info.param == ActivationKind::kW8A8 ? "W8A8" : "Fp8";
}
INSTANTIATE_TEST_SUITE_P(Kind, GpuLibrary,
                         ::testing::Values(ActivationKind::kBf16, ActivationKind::kW8A8, ActivationKind::kFp8),
                         kind_name);

/// Teacher-forced, against the CPU's activations in float32 (of float weights) or int16. Random weights make sharp
/// distributions of little differences: of a trained model the mean is a tenth of these (docs/cuda.md).
void expect_near_the_cpu(EngineOptions options) {
  SCOPED_TRACE(options.model_path);
  const double coarse = coarseness(options.activations);
  const double max_mean = 0.07 * coarse;
  constexpr int kVocabSize = 100;
  const Scores found = score(options, kVocabSize);
  options.device = "cpu";
  options.activations = ActivationKind::kInt16;
  const Scores expected = score(options, kVocabSize);
  const ScoreDistance distance = distance_of(found, expected);
  EXPECT_LT(distance.mean, max_mean);
  EXPECT_LT(distance.largest, 10 * max_mean);
  EXPECT_GT(distance.largest, 0) << "these are not the CPU's bits";
  EXPECT_LE(distance.other_best, std::min(coarse, 6.0) / 12);
}

TEST_P(GpuLibrary, EveryFormatOfWeightsIsNearTheCpu) {
  for (const char* model : {"tiny_gqa_tied_f32", "tiny_gqa_tied_q8_0", "tiny_gqa_untied_q4_0", "tiny_gqa_tied_q4_1",
                            "tiny_mqa_tied_q6_k"}) {
    expect_near_the_cpu(options(tiny_model(model)));
  }
}

TEST_P(GpuLibrary, BiasesAndOtherBlocksAreNearTheCpu) {
  for (const char* model : {"gpt2", "opt_q8_0", "qwen2_gqa_tied", "gemma2", "phi3_window", "codegen"}) {
    expect_near_the_cpu(options(data_file("architectures/" + std::string(model) + ".gguf")));
  }
}

TEST_P(GpuLibrary, DraftsOfAllKindsAreVerified) {
  TempFolder folder;
  const std::string quantised = tiny_model("tiny_gqa_untied_q4_0");
  const std::string truncated = folder / "draft.gguf";
  write_truncated_model(quantised, 1, truncated);
  const std::pair<std::string, std::string> pairs[] = {
      {quantised, truncated}, {tiny_model("tiny_gqa_tied_f32"), data_file("tiny/draft_feature_q8_0.gguf")}};
  for (const auto& [model, draft] : pairs) {
    SCOPED_TRACE(draft);
    const auto engine = load_engine(options(model, draft));
    ASSERT_NE(engine, nullptr);
    std::vector<Request> requests(3);
    for (size_t i = 0; i < requests.size(); ++i) {
      requests[i].prompt_tokens = {5, 9, 14, 3, static_cast<TokenId>(7 * i)};
      requests[i].max_tokens = 32;
      requests[i].seed = i;
      requests[i].sampling.temperature = i == 0 ? 0.0f : 0.8f;
      requests[i].sampling.ignore_eos = true;
      requests[i].speculation.draft_length = "fixed:3";
      requests[i].speculation.drafter = DrafterChoice::kModel;
    }
    for (const RequestResult& result : run_all(*engine, requests)) {
      for (const ChoiceResult& choice : result.choices) {
        EXPECT_EQ(choice.error, "");
        EXPECT_EQ(choice.tokens.size(), 32u);
      }
    }
    EXPECT_GT(engine->stats().speculation.drafted, 0);
    EXPECT_GT(engine->stats().speculation.accepted, 0);
  }
}

// Sums of int8 are exact: nobody's rows depend on who else is in the batch, nor on drafts.
TEST_P(GpuExactLibrary, DependsOnNoBatchAndNoDraft) {
  const std::string model = tiny_model("tiny_gqa_untied_q4_0");
  const auto engine = load_engine(options(model, tiny_model("tiny_gqa_untied_q4_0")));
  ASSERT_NE(engine, nullptr);
  std::vector<Request> requests(4);
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].prompt_tokens = {5, 9, 14, 3, static_cast<TokenId>(7 * i + 1)};
    requests[i].max_tokens = 16;
    requests[i].seed = i;
    requests[i].sampling.temperature = i % 2 == 0 ? 0.0f : 0.8f;
    requests[i].sampling.ignore_eos = true;
    requests[i].speculation.verify = VerifyRule::kMatch;
    requests[i].speculation.draft_length = "fixed:3";
    requests[i].speculation.drafter = DrafterChoice::kModel;
  }
  const std::vector<RequestResult> together = run_all(*engine, requests);
  EXPECT_GT(engine->stats().speculation.accepted, 0);
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].speculation.drafter = DrafterChoice::kOff;
    const std::vector<RequestResult> alone = run_all(*engine, {requests[i]});
    EXPECT_EQ(alone[0].choices[0].tokens, together[i].choices[0].tokens) << i;
    EXPECT_EQ(alone[0].choices[0].logprobs, together[i].choices[0].logprobs) << i;
  }
}

TEST_P(GpuLibrary, ExpertsAreNotForTheLibrary) {
  const Result<std::unique_ptr<Engine>> engine = Engine::load(options(data_file("architectures/olmoe.gguf")));
  ASSERT_FALSE(engine.ok());
  EXPECT_THAT(engine.status().message(), ::testing::HasSubstr("use --activations int8 or int16"));
}

TEST_P(GpuLibrary, TheCpuHasNone) {
  EngineOptions cpu = options(tiny_model("tiny_gqa_tied_f32"));
  cpu.device = "cpu";
  const Result<std::unique_ptr<Engine>> engine = Engine::load(cpu);
  ASSERT_FALSE(engine.ok());
  EXPECT_THAT(engine.status().message(), ::testing::HasSubstr("on the CPU use int8 or int16"));
}

}  // namespace
}  // namespace bass::testing
