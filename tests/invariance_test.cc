// Row invariance on the default model: a token's log-probability is the same to the bit alone and in a batch, with any
// number of threads, as prefill, decode and verification, padded, split and fused, on every instruction set of the
// machine.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "kernels/cpu/kernels.h"
#include "support/engine_run.h"

namespace bass::testing {
namespace {

const char* const kTexts[] = {
    "The river rose slowly through the night, and by morning the lower fields were under water. Nobody in the village ",
    "def binary_search(items, target):\n    low, high = 0, len(items) - 1\n    while low <= high:\n",
    "1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89,",
    "Dear Ms. Alvarez,\n\nthank you for your letter of 3 March. We have looked into the matter and",
    "x",
};

std::vector<Request> requests(int max_tokens) {
  std::vector<Request> all;
  for (size_t i = 0; i < std::size(kTexts); ++i) {
    Request request;
    request.prompt = kTexts[i];
    request.max_tokens = max_tokens + static_cast<int>(i) * 3;
    request.n = 1 + static_cast<int>(i) % 3;
    request.seed = 40 + i;
    request.sampling.temperature = i % 2 == 0 ? 0.0f : 0.9f;
    request.sampling.ignore_eos = true;
    request.speculation.draft_length = "fixed:4";
    all.push_back(request);
  }
  return all;
}

EngineOptions options_of(int n_threads, int max_batch, AttentionKind attention) {
  EngineOptions options{.model_path = default_model(), .max_batch = max_batch, .n_threads = n_threads};
  options.attention = attention;
  options.kv_memory_mib = 256;
  options.context_len = 1024;
  return options;
}

std::vector<RequestResult> run_with(const EngineOptions& options, DrafterChoice drafter, int max_tokens) {
  auto engine = load_engine(options);
  std::vector<Request> all = requests(max_tokens);
  for (Request& request : all) request.speculation.drafter = drafter;
  return engine == nullptr ? std::vector<RequestResult>{} : run_all(*engine, all);
}

void expect_equal_bits(const std::vector<RequestResult>& expected, const std::vector<RequestResult>& actual,
                       const char* what) {
  SCOPED_TRACE(what);
  expect_same_outputs(expected, actual);
}

TEST(RowInvariance, BatchesThreadsAndLayoutsGiveTheSameBits) {
  const auto alone = run_with(options_of(1, 1, AttentionKind::kSplit), DrafterChoice::kOff, 12);
  ASSERT_FALSE(alone.empty());
  expect_equal_bits(alone, run_with(options_of(2, 32, AttentionKind::kSplit), DrafterChoice::kOff, 12),
                    "batch, 2 threads");
  expect_equal_bits(alone, run_with(options_of(3, 4, AttentionKind::kPad), DrafterChoice::kOff, 12), "pad, 3 threads");
  expect_equal_bits(alone, run_with(options_of(2, 32, AttentionKind::kPad), DrafterChoice::kNgram, 12),
                    "n-gram drafts, pad");
  expect_equal_bits(alone, run_with(options_of(2, 3, AttentionKind::kSplit), DrafterChoice::kNgram, 12),
                    "n-gram drafts");
  for (const int n_threads : {1, 2, 9}) {  // siblings share their prompt's chunks
    expect_equal_bits(alone, run_with(options_of(n_threads, 32, AttentionKind::kFused), DrafterChoice::kNgram, 12),
                      "n-gram drafts, fused");
  }
}

// Samples share 18 whole chunks of their prompt, one unit of work a KV head, which is cut into runs for the threads.
TEST(RowInvariance, SamplesOfALongPromptGiveTheSameBits) {
  Request request;
  for (int i = 0; i < 13; ++i) request.prompt += kTexts[0] + std::string(kTexts[3]);
  request.n = 4;
  request.max_tokens = 10;
  request.seed = 7;
  request.speculation.draft_length = "fixed:4";
  for (const KvKind kv : {KvKind::kInt16, KvKind::kInt8}) {
    const auto run = [&](int n_threads, int max_batch, AttentionKind attention, DrafterChoice drafter) {
      EngineOptions options = options_of(n_threads, max_batch, attention);
      options.kv = kv;
      auto engine = load_engine(options);
      request.speculation.drafter = drafter;
      return engine == nullptr ? std::vector<RequestResult>{} : run_all(*engine, {request});
    };
    const auto alone = run(1, 1, AttentionKind::kSplit, DrafterChoice::kOff);
    ASSERT_EQ(alone.size(), 1u);
    EXPECT_GT(alone[0].prompt.prompt_tokens.size(), 18u * cpu::kKvPageLen);
    for (const int n_threads : {2, 3, 9}) {
      expect_equal_bits(alone, run(n_threads, 8, AttentionKind::kFused, DrafterChoice::kOff), "fused");
      expect_equal_bits(alone, run(n_threads, 8, AttentionKind::kFused, DrafterChoice::kNgram), "fused, n-gram drafts");
    }
  }
}

// With so many rows each thread takes its own through all layers, and a verified draft may be cut between two.
TEST(RowInvariance, ThreadsWithRowsOfTheirOwnGiveTheSameBits) {
  const auto run = [](int n_threads, DrafterChoice drafter) {
    auto engine = load_engine(options_of(n_threads, 48, AttentionKind::kFused));
    std::vector<Request> all = requests(10);
    for (Request& request : all) {
      request.n = 9;
      request.speculation.drafter = drafter;
      if (request.sampling.temperature == 0) request.sampling.temperature = 0.7f;  // siblings that differ
    }
    return engine == nullptr ? std::vector<RequestResult>{} : run_all(*engine, all);
  };
  const auto alone = run(1, DrafterChoice::kOff);
  ASSERT_FALSE(alone.empty());
  expect_equal_bits(alone, run(2, DrafterChoice::kOff), "2 threads");
  expect_equal_bits(alone, run(2, DrafterChoice::kNgram), "2 threads, n-gram drafts");
  expect_equal_bits(alone, run(3, DrafterChoice::kNgram), "3 threads, n-gram drafts");
}

void expect_prefills_bits(KvKind kv) {
  EngineOptions options = options_of(2, 32, AttentionKind::kFused);
  options.kv = kv;
  auto engine = load_engine(options);
  ASSERT_NE(engine, nullptr);
  const std::vector<RequestResult> generated = run_all(*engine, requests(40));
  EXPECT_GT(engine->stats().speculation.accepted, 0) << "no token came out of a verification";
  for (const RequestResult& result : generated) {
    for (const ChoiceResult& choice : result.choices) {
      std::vector<TokenId> text = result.prompt.prompt_tokens;
      text.insert(text.end(), choice.tokens.begin(), choice.tokens.end());
      const std::vector<float> prefill = score(*engine, text).prompt.prompt_logprobs;
      const std::vector<float> tail(prefill.end() - static_cast<ptrdiff_t>(choice.tokens.size()), prefill.end());
      EXPECT_EQ(tail, choice.logprobs);
    }
  }
}

TEST(RowInvariance, DecodeAndVerificationGiveThePrefillsBits) { expect_prefills_bits(KvKind::kInt16); }
TEST(RowInvariance, SoDoTheyWithAnInt8Cache) { expect_prefills_bits(KvKind::kInt8); }

TEST(RowInvariance, LayoutsGiveTheSameBitsWithAnInt8Cache) {
  const auto run = [](int n_threads, AttentionKind attention, DrafterChoice drafter) {
    EngineOptions options = options_of(n_threads, 32, attention);
    options.kv = KvKind::kInt8;
    return run_with(options, drafter, 12);
  };
  const auto split = run(1, AttentionKind::kSplit, DrafterChoice::kOff);
  ASSERT_FALSE(split.empty());
  expect_equal_bits(split, run(2, AttentionKind::kPad, DrafterChoice::kNgram), "pad");
  expect_equal_bits(split, run(3, AttentionKind::kFused, DrafterChoice::kNgram), "fused");
}

TEST(RowInvariance, EveryInstructionSetGivesTheSameBits) {
  const cpu::Kernels* tables[8];
  const int n_tables = cpu::available_kernels(tables, 8);
  std::vector<RequestResult> expected;
  for (int i = n_tables - 1; i >= 0; --i) {  // the scalar one, last, is slow
    ASSERT_EQ(::setenv("BASS_FORCE_ISA", tables[i]->name, 1), 0);
    const auto actual = run_with(options_of(2, 8, AttentionKind::kFused), DrafterChoice::kNgram, 3);
    if (expected.empty()) expected = actual;
    expect_equal_bits(expected, actual, tables[i]->name);
  }
  ::unsetenv("BASS_FORCE_ISA");
}

// Negative control: other arithmetic (int16 activations, an int8 cache) shows in these comparisons.
TEST(RowInvarianceControl, OtherArithmeticGivesOtherBits) {
  EngineOptions options = options_of(2, 32, AttentionKind::kSplit);
  const auto int8 = run_with(options, DrafterChoice::kOff, 4);
  options.kv = KvKind::kInt8;
  const auto int8_cache = run_with(options, DrafterChoice::kOff, 4);
  options.kv = KvKind::kInt16;
  options.activations = ActivationKind::kInt16;
  const auto int16 = run_with(options, DrafterChoice::kOff, 4);
  ASSERT_FALSE(int8.empty() || int16.empty() || int8_cache.empty());
  EXPECT_NE(int8[0].choices[0].logprobs, int16[0].choices[0].logprobs);
  EXPECT_NE(int8[0].choices[0].logprobs, int8_cache[0].choices[0].logprobs);
}

}  // namespace
}  // namespace bass::testing
