// Steps of the GPU executor on the emulated device: what the host waits for, and what it is told of drafts.
#include "executor/cuda/gpu_executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "kernels/cuda/emulator/emulated_device.h"
#include "support/data_file.h"
#include "text/grammar/json_schema.h"

namespace bass::cuda {
namespace {

using ::testing::HasSubstr;

constexpr int kPages = 2;  // of a sequence
constexpr int kSequences = 3;
constexpr int kDrafts = 5;

/// One step of sequences that draft as many tokens as their number says, on a device and on the CPU.
class GpuStep : public ::testing::TestWithParam<VerifyRule> {
 protected:
  StepPlan plan() {
    StepPlan plan;
    for (int i = 0; i < kSequences; ++i) {
      pages_[static_cast<size_t>(i)] = {kPages * i, kPages * i + 1};
      SegmentPlan& segment = plan.segments.emplace_back();
      segment.tokens = segment.draft_tokens = prompt_;
      segment.pages = segment.draft_pages = pages_[static_cast<size_t>(i)];
      segment.max_text_len = 64;
      segment.wants_sample = true;
      segment.n_model_drafts = kDrafts - i;
      segment.sampling.temperature = 0.8f;
      segment.sampling.repetition_penalty = 1.3f;  // depends on the tokens that were drafted
      segment.sampling.seed = static_cast<uint64_t>(i);
      segment.sampling.rule = GetParam();
      segment.prompt = prompt_;
    }
    return plan;
  }

  /// Drafts' passes, and the main model's.
  static constexpr int kPasses = kDrafts + 1;

  ExecutorOptions options(bool traces_drafts = false) const {
    ExecutorOptions options{.n_threads = 2, .max_batch = 8, .n_main_pages = 16, .n_draft_pages = 16, .context_len = 64};
    options.traces_drafts = traces_drafts;
    return options;
  }
  std::unique_ptr<Executor> on_device(int* n_waits, bool traces_drafts = false) {
    return on_device({.n_waits = n_waits}, traces_drafts);
  }
  std::unique_ptr<Executor> on_device(const EmulatedDeviceOptions& device, bool traces_drafts = false) {
    return make_gpu_executor(open_emulated_device(device), main_, &draft_, options(traces_drafts)).value();
  }

  const std::vector<TokenId> prompt_{5, 9, 200, 17, 40, 9};
  std::array<std::array<PageId, kPages>, kSequences> pages_{};
  ModelFile main_ = load_model_file(testing::tiny_model(testing::kTinyModel)).value();
  ModelFile draft_ = load_model_file(testing::tiny_model(testing::kTinyModel)).value();  // its drafts are accepted
};

INSTANTIATE_TEST_SUITE_P(Rules, GpuStep,
                         ::testing::Values(VerifyRule::kRejection, VerifyRule::kBlock, VerifyRule::kMatch),
                         [](const auto& test) { return "Rule" + std::to_string(static_cast<int>(test.param)); });

TEST_P(GpuStep, WaitsOnceForAllItsPassesAndDraftsAsTheCpu) {
  int n_waits = 0;
  const auto gpu = on_device(&n_waits);
  const auto cpu = make_cpu_executor(main_, &draft_, options()).value();
  const StepPlan step = plan();
  n_waits = 0;
  const StepResult& result = gpu->wait(gpu->submit(step));
  EXPECT_EQ(n_waits, 1);
  const StepResult& expected = cpu->wait(cpu->submit(step));
  int n_accepted = 0;
  for (size_t i = 0; i < expected.segments.size(); ++i) {
    EXPECT_EQ(result.segments[i].n_drafted, kDrafts - static_cast<int>(i));
    EXPECT_EQ(result.segments[i].n_accepted, expected.segments[i].n_accepted);
    ASSERT_EQ(result.segments[i].tokens.size(), expected.segments[i].tokens.size());
    for (size_t k = 0; k < expected.segments[i].tokens.size(); ++k) {
      EXPECT_EQ(result.segments[i].tokens[k].id, expected.segments[i].tokens[k].id);
    }
    n_accepted += result.segments[i].n_accepted;
  }
  EXPECT_GT(n_accepted, 0) << "tokens that were drafted on the device, and came from there";
}

TEST_P(GpuStep, TheHostIsFreeWhileTheDeviceWorks) {
  int n_waits = 0;
  const auto gpu = on_device(&n_waits);
  ASSERT_TRUE(gpu->works_beside_host());
  const StepPlan step = plan();
  n_waits = 0;
  const Ticket ticket = gpu->submit(step);
  EXPECT_EQ(n_waits, 0);
  const std::vector<TokenInfo> tokens = gpu->wait(ticket).segments[0].tokens;
  EXPECT_EQ(n_waits, 1);
  EXPECT_EQ(gpu->wait(ticket).segments[0].tokens.size(), tokens.size()) << "the same result again";
  EXPECT_EQ(n_waits, 1);
}

TEST_P(GpuStep, TellsTheTimesOfPassesThatItDidNotWaitFor) {
  const auto gpu = on_device(nullptr);
  const StepPlan step = plan();
  const DraftTimes& times = gpu->wait(gpu->submit(step)).draft_times;
  EXPECT_EQ(times.n_first, 1);
  EXPECT_EQ(times.n_later, kDrafts - 1);
  EXPECT_GT(times.first_s, 0);
  EXPECT_GT(times.later_s, 0);
}

TEST_P(GpuStep, StepsOfTheSameSizesAreTheSameGraphs) {
  const auto gpu = on_device(nullptr);
  const StepPlan step = plan();
  GraphCounts counts;
  for (int i = 0; i < 2; ++i) counts = gpu->wait(gpu->submit(step)).graphs;
  EXPECT_GT(counts.recorded, 0) << "sizes that come again";
  EXPECT_EQ(counts.replayed, kPasses);
  counts = gpu->wait(gpu->submit(step)).graphs;
  EXPECT_EQ(counts.recorded, 0);
  EXPECT_EQ(counts.replayed, kPasses);
  EXPECT_EQ(counts.launched_one_by_one, 0);
}

TEST_P(GpuStep, ThePapersLayoutsAreLaunchedKernelByKernel) {
  for (const AttentionKind kind : {AttentionKind::kPad, AttentionKind::kSplit}) {
    ExecutorOptions with_layout = options();
    with_layout.attention = kind;
    const auto gpu = make_gpu_executor(open_emulated_device(), main_, &draft_, with_layout).value();
    const StepPlan step = plan();
    const GraphCounts counts = gpu->wait(gpu->submit(step)).graphs;
    EXPECT_EQ(counts.replayed, 0);
    EXPECT_EQ(counts.launched_one_by_one, kPasses);
  }
}

// The draft model may have more to read of a text than any step verifies.
TEST_P(GpuStep, DraftsThatCatchUpAreReadInEveryLayout) {
  std::vector<TokenId> text;
  for (int i = 0; i < 45; ++i) text.push_back(3 + i * 7 % 200);
  StepPlan prompts = plan(), drafts = plan();
  for (SegmentPlan& segment : prompts.segments) {
    segment.tokens = std::span<const TokenId>(text).first(text.size() - 1);
    segment.draft_tokens = {};
    segment.wants_sample = false;
    segment.n_model_drafts = 0;
  }
  for (SegmentPlan& segment : drafts.segments) {
    segment.start = static_cast<int>(text.size()) - 1;  // the main model knows the rest, the draft model nothing
    segment.tokens = std::span<const TokenId>(text).last(1);
    segment.draft_tokens = text;
    segment.prompt = text;
  }
  const auto drawn_by = [&](Executor* executor) {
    (void)executor->wait(executor->submit(prompts));
    std::vector<TokenId> ids;
    for (const SegmentResult& segment : executor->wait(executor->submit(drafts)).segments) {
      ids.push_back(-segment.n_drafted);
      for (const auto& token : segment.tokens) ids.push_back(token.id);
    }
    return ids;
  };
  const auto cpu = make_cpu_executor(main_, &draft_, options()).value();
  const std::vector<TokenId> expected = drawn_by(cpu.get());
  EXPECT_GT(expected.size(), 2 * kSequences);
  for (const AttentionKind kind :
       {AttentionKind::kPad, AttentionKind::kSplit, AttentionKind::kSplitGrouped, AttentionKind::kFused}) {
    ExecutorOptions with_layout = options();
    with_layout.attention = kind;
    const auto gpu = make_gpu_executor(open_emulated_device(), main_, &draft_, with_layout).value();
    EXPECT_EQ(drawn_by(gpu.get()), expected) << static_cast<int>(kind);
  }
}

TEST_P(GpuStep, MoreSequencesThanOneBlockPlansAreRefused) {
  ExecutorOptions many = options();
  many.max_batch = 4096;
  const auto refused = make_gpu_executor(open_emulated_device(), main_, nullptr, many);
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.status().message(), HasSubstr("--max-batch 4096"));
  EXPECT_THAT(refused.status().message(), HasSubstr("--attention split-grouped"));
}

TEST_P(GpuStep, WhatTheLibraryCannotMultiplyIsRefused) {
  ExecutorOptions bytes = options();
  bytes.activations = ActivationKind::kFp8;
  EmulatedDeviceOptions ampere;
  ampere.compute_capability = 80;
  const auto too_old = make_gpu_executor(open_emulated_device(ampere), main_, nullptr, bytes);
  EXPECT_EQ(too_old.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(too_old.status().message(), HasSubstr("compute capability 8.9 or later; emulated GPU has 8.0"));
  EmulatedDeviceOptions old_code;
  old_code.code_capability = 80;
  const auto of_old_code = make_gpu_executor(open_emulated_device(old_code), main_, nullptr, bytes);
  EXPECT_EQ(of_old_code.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(of_old_code.status().message(), HasSubstr("compiled for 8.0"));
  ModelFile odd = load_model_file(testing::tiny_model(testing::kTinyModel)).value();
  odd.config.d_ff = 100;
  const auto odd_rows = make_gpu_executor(open_emulated_device(), odd, nullptr, bytes);
  EXPECT_EQ(odd_rows.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(odd_rows.status().message(), HasSubstr("has rows of 100 weights"));
  EXPECT_THAT(odd_rows.status().message(), HasSubstr("--activations int8, int16 or bf16"));
}

TEST_P(GpuStep, AllMemoryIsTakenAtLoad) {
  int n_allocations = 0;
  const auto gpu = on_device({.n_allocations = &n_allocations});
  StepPlan step = plan();
  for (SegmentPlan& segment : step.segments) segment.wants_top5 = true;
  n_allocations = 0;
  for (int i = 0; i < 3; ++i) {
    const SegmentResult& segment = gpu->wait(gpu->submit(step)).segments[0];
    EXPECT_FALSE(segment.failed);
    EXPECT_EQ(segment.top5.size(), 5u);
  }
  EXPECT_EQ(n_allocations, 0);
  // But for more of these than scoring tells, and lists that are longer than anyone's: what shows that memory would
  // have been counted.
  const std::vector<LogitBias> bias(100'000, {1, 0.5f});
  step.segments[0].sampling.bias = bias.data();
  step.segments[0].sampling.n_bias = static_cast<int32_t>(bias.size());
  EXPECT_FALSE(gpu->wait(gpu->submit(step)).segments[0].failed);
  EXPECT_GT(n_allocations, 0);
  step.segments[0].n_top = 20;
  n_allocations = 0;
  EXPECT_FALSE(gpu->wait(gpu->submit(step)).segments[0].failed);
  EXPECT_EQ(n_allocations, 2);  // and the host's
  EXPECT_FALSE(gpu->wait(gpu->submit(step)).segments[0].failed);
  EXPECT_EQ(n_allocations, 2) << "it is there now";
}

TEST_P(GpuStep, AStepWithoutRoomEndsItsRequestsAndNoOthers) {
  int n_allocations = 0;
  const auto gpu = on_device({.total_bytes = size_t{160} << 20, .n_allocations = &n_allocations});
  const StepPlan step = plan();
  const std::vector<TokenInfo> tokens = gpu->wait(gpu->submit(step)).segments[0].tokens;
  ASSERT_FALSE(tokens.empty());

  StepPlan greedy_for_memory = plan();
  const std::vector<LogitBias> bias(25'000'000, {1, 0.5f});  // 200 MB
  greedy_for_memory.segments[0].sampling.bias = bias.data();
  greedy_for_memory.segments[0].sampling.n_bias = static_cast<int32_t>(bias.size());
  const StepResult& result = gpu->wait(gpu->submit(greedy_for_memory));
  for (int i = 0; i < kSequences; ++i) {
    const SegmentResult& segment = result.segments[static_cast<size_t>(i)];
    EXPECT_TRUE(segment.failed);
    EXPECT_EQ(segment.error.code(), StatusCode::kResourceExhausted);
    EXPECT_THAT(segment.error.message(), HasSubstr("no memory of the GPU"));
  }

  n_allocations = 0;
  const StepResult& next = gpu->wait(gpu->submit(step));
  EXPECT_FALSE(next.segments[0].failed);
  EXPECT_EQ(n_allocations, 0) << "what was taken at load is there still";
  ASSERT_EQ(next.segments[0].tokens.size(), tokens.size());
  for (size_t k = 0; k < tokens.size(); ++k) EXPECT_EQ(next.segments[0].tokens[k].id, tokens[k].id);
}

// Traced drafts are drawn by the CPU, which needs each pass's logits.
TEST_P(GpuStep, WaitsForEachPassWhereTheCpuDraws) {
  int n_waits = 0;
  const auto gpu = on_device(&n_waits, /*traces_drafts=*/true);
  const StepPlan step = plan();
  n_waits = 0;
  EXPECT_FALSE(gpu->works_beside_host());
  gpu->wait(gpu->submit(step));
  EXPECT_EQ(n_waits, kDrafts + 1);
}

// What may come behind a drafted token under a grammar depends on it; those who follow none are not waited for alone.
TEST_P(GpuStep, WaitsForEachDraftOfASequenceThatFollowsAGrammar) {
  int n_waits = 0;
  const auto gpu = on_device(&n_waits);
  const auto cpu = make_cpu_executor(main_, &draft_, options()).value();
  const auto tokenizer = Tokenizer::create(main_.vocab).value();
  const auto texts = std::make_shared<TokenTexts>(*tokenizer, static_cast<int>(main_.vocab.tokens.size()));
  TokenConstraint constraint(json_schema_grammar(R"({"type": "boolean"})").value(), texts);
  StepPlan step = plan();
  step.segments[1].constraint = &constraint;
  step.segments[1].constraint_state = constraint.start();
  step.segments[1].n_top = 3;
  n_waits = 0;
  const StepResult& result = gpu->wait(gpu->submit(step));
  const SegmentResult& expected = cpu->wait(cpu->submit(step)).segments[1];
  const SegmentResult& segment = result.segments[1];
  EXPECT_GT(segment.n_drafted, 1);
  EXPECT_EQ(n_waits, 1 + segment.n_drafted);
  EXPECT_EQ(segment.n_drafted, expected.n_drafted);
  EXPECT_EQ(result.segments[0].n_drafted, kDrafts);
  ASSERT_EQ(segment.tokens.size(), expected.tokens.size());
  for (size_t k = 0; k < expected.tokens.size(); ++k) EXPECT_EQ(segment.tokens[k].id, expected.tokens[k].id);
  for (size_t k = 0; k < 3 * expected.tokens.size(); ++k) EXPECT_EQ(segment.top_logprobs[k], expected.top_logprobs[k]);
}

// As after an exception between a step's submit and its end: what the first one queued reads what the second writes.
TEST_P(GpuStep, AStepThatNobodyWaitedForIsOverBeforeTheNextIsWritten) {
  int n_waits = 0;
  const auto gpu = on_device(&n_waits);
  EXPECT_TRUE(gpu->works_beside_host());
  const StepPlan step = plan();
  n_waits = 0;
  gpu->submit(step);
  const Ticket ticket = gpu->submit(step);
  EXPECT_EQ(n_waits, 1);
  EXPECT_FALSE(gpu->wait(ticket).segments[0].failed);
  EXPECT_EQ(n_waits, 2);
}

// The emulator looks whether copies from or to the host's memory are queued when that is released.
TEST_P(GpuStep, AnExecutorThatNobodyWaitedForEndsWell) {
  int n_waits = 0;
  auto gpu = on_device(&n_waits);
  const StepPlan step = plan();
  n_waits = 0;
  gpu->submit(step);
  gpu.reset();
  EXPECT_EQ(n_waits, 1);
}

TEST_P(GpuStep, RowsThatABlockCannotHoldAreRefused) {
  ExecutorOptions split = options();
  split.attention = AttentionKind::kSplitGrouped;
  const auto refused = make_gpu_executor(open_emulated_device({.max_shared_bytes = 256}), main_, nullptr, split);
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.status().message(), HasSubstr("rows of 64 numbers, of which a block of emulated GPU holds 48"));
}

/// A model, and what multiplies it.
struct PlacedModel {
  std::string name;
  ActivationKind activations;
  LibraryNumbers library = LibraryNumbers::kNone;  // that these are multiplied by
};
class GpuWeightBytes : public ::testing::TestWithParam<PlacedModel> {};

INSTANTIATE_TEST_SUITE_P(
    Models, GpuWeightBytes,
    ::testing::Values(PlacedModel{"tiny_gqa_tied_f32", ActivationKind::kInt8},
                      PlacedModel{"tiny_gqa_tied_f32", ActivationKind::kBf16, LibraryNumbers::kBf16},
                      PlacedModel{"tiny_gqa_tied_q4_1", ActivationKind::kInt8},
                      PlacedModel{"tiny_gqa_tied_q5_0", ActivationKind::kInt8},
                      PlacedModel{"tiny_mqa_tied_q6_k", ActivationKind::kInt16},
                      PlacedModel{"tiny_gqa_untied_q4_0", ActivationKind::kW8A8, LibraryNumbers::kInt8}),
    [](const auto& test) { return test.param.name + std::to_string(static_cast<int>(test.param.activations)); });

// All that loading takes but weights has a size that does not depend on them.
TEST_P(GpuWeightBytes, AreWhatLoadingTakes) {
  const ModelFile file = load_model_file(testing::tiny_model(GetParam().name)).value();
  const GpuKvOptions kv{KvKind::kInt16, 4, 64, 0};
  ThreadTeam team(2);
  const std::unique_ptr<Device> device = open_emulated_device();
  const size_t before = device->free_bytes();
  const size_t counted = gpu_weight_bytes(device.get(), file, nullptr, GetParam().activations).value();
  const size_t others = static_cast<size_t>(cpu_page_bytes(file.config, kv.kind)) * (kv.n_pages + size_t{1}) +
                        2 * file.config.ropes.size() * size_t{64} * (file.config.rope_dim / size_t{2}) * sizeof(float);
  EXPECT_EQ(device->free_bytes(), before) << "counting takes nothing";
  const auto model = GpuModel::load(device.get(), file, kv, &team, GetParam().library).value();
  EXPECT_EQ(counted + others, before - device->free_bytes());
}

TEST(GpuWeights, TakeMoreThanTheirFileWhereBitsAreFew) {
  const std::unique_ptr<Device> device = open_emulated_device();
  const auto bytes = [&](const std::string& name) {
    const ModelFile file = load_model_file(testing::tiny_model(name)).value();
    return static_cast<double>(gpu_weight_bytes(device.get(), file, nullptr, ActivationKind::kInt8).value()) /
           static_cast<double>(file.weight_bytes);
  };
  EXPECT_GT(bytes("tiny_mqa_tied_q6_k"), 1.2);  // kept in 8 bits
  EXPECT_LT(bytes("tiny_gqa_tied_q8_0"), 1.2);
}

TEST(GpuWeights, OfADraftThatReadsTheMainModelsHeadAreItsOwn) {
  const std::unique_ptr<Device> device = open_emulated_device();
  const ModelFile main = load_model_file(testing::tiny_model(testing::kTinyModel)).value();
  const ModelFile draft = load_model_file(testing::tiny_model("draft_feature_f32")).value();
  const size_t alone = gpu_weight_bytes(device.get(), main, nullptr, ActivationKind::kInt8).value();
  const size_t both = gpu_weight_bytes(device.get(), main, &draft, ActivationKind::kInt8).value();
  EXPECT_GT(both, alone);
  EXPECT_LT(both, 2 * alone);
}

}  // namespace
}  // namespace bass::cuda
