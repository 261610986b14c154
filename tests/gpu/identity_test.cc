// The GPU backend gives the CPU backend's tokens and log-probabilities to the bit: every format, architecture, draft,
// layout, cache and rule. By the emulator; on a real GPU with BASS_TEST_GPU in the environment (tools/gpu_check.sh).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "support/emulated_gpu.h"
#include "support/engine_run.h"
#include "support/temp_folder.h"
#include "support/test_models.h"

namespace bass::testing {
namespace {

using ::testing::HasSubstr;

class GpuIdentity : public ::testing::Test {
  EmulatedUnlessGpu gpu_;
};

EngineOptions small_options(const std::string& model, const std::string& draft = "") {
  EngineOptions options{.model_path = model, .draft_path = draft, .max_batch = 6, .n_threads = 2};
  options.max_step_tokens = 16;  // prompts come in chunks
  options.context_len = 128;
  return options;
}

/// Prompts of all lengths up to more than a page, several samples, scores.
std::vector<Request> mixed_requests(int vocab_size, const std::string& draft_length) {
  std::vector<Request> requests;
  for (int i = 0; i < 5; ++i) {
    Request request;
    const int n_tokens = i == 3 ? 41 : 1 + 4 * i;
    for (int t = 0; t < n_tokens; ++t) request.prompt_tokens.push_back((t * t * 7 + i * 31 + t % 4) % vocab_size);
    request.n = 1 + i % 3;
    request.job = 1;  // in this order, whoever waits: what n-grams find depends on how far the other samples are
    request.max_tokens = 4 + 2 * i;
    request.seed = 5 + static_cast<uint64_t>(i);
    request.sampling.temperature = i % 3 == 0 ? 0.0f : 0.9f;
    request.sampling.ignore_eos = true;
    request.prompt_logprobs = i % 2 == 0;
    request.speculation.draft_length = draft_length;
    requests.push_back(request);
  }
  for (const size_t i : {size_t{2}, size_t{4}}) {
    requests[i].min_tokens = 3;
    for (int id = 0; id < vocab_size; id += 4) requests[i].stop_token_ids.push_back(id);
    requests[i].stop_token_ids.resize(std::min<size_t>(requests[i].stop_token_ids.size(), 200));
  }
  requests[1].sampling.top_k = 20;
  requests[2].sampling.top_p = 0.9f;
  requests[2].sampling.repetition_penalty = 1.2f;
  requests[4].sampling.min_p = 0.05f;
  requests[4].sampling.frequency_penalty = 0.3f;
  return requests;
}

struct Results {
  std::vector<RequestResult> requests;
  SpeculationStats stats;
};

Results run_on(const std::string& device, EngineOptions options, std::vector<Request> requests) {
  StartGate start;  // what n-grams find depends on who has begun
  options.device = device;
  options.gate = &start;
  const auto engine = load_engine(options);
  if (engine == nullptr) return {};
  EXPECT_THAT(engine->options().device, HasSubstr(device));
  Results results;
  results.requests = run_all(*engine, requests, &start);
  results.stats = engine->stats().speculation;
  return results;
}

/// Runs the requests on both; gives what the drafts did.
SpeculationStats expect_identical(const EngineOptions& options, const std::vector<Request>& requests) {
  const Results cpu = run_on("cpu", options, requests);
  const Results gpu = run_on("cuda", options, requests);
  EXPECT_EQ(gpu.requests.size(), requests.size());
  for (size_t i = 0; i < std::min(cpu.requests.size(), gpu.requests.size()); ++i) {
    const RequestResult& expected = cpu.requests[i];
    const RequestResult& actual = gpu.requests[i];
    EXPECT_EQ(actual.prompt.prompt_logprobs, expected.prompt.prompt_logprobs) << "request " << i;
    EXPECT_EQ(actual.prompt.prompt_argmax, expected.prompt.prompt_argmax) << "request " << i;
    EXPECT_EQ(actual.prompt.top_logprobs, expected.prompt.top_logprobs) << "request " << i;
    EXPECT_EQ(actual.choices.size(), expected.choices.size());
    for (size_t k = 0; k < std::min(actual.choices.size(), expected.choices.size()); ++k) {
      EXPECT_EQ(actual.choices[k].error, expected.choices[k].error);
      EXPECT_EQ(actual.choices[k].reason, expected.choices[k].reason);
      EXPECT_EQ(actual.choices[k].text, expected.choices[k].text);
      EXPECT_EQ(actual.choices[k].top_logprobs, expected.choices[k].top_logprobs) << "request " << i;
      EXPECT_EQ(actual.choices[k].tokens, expected.choices[k].tokens) << "request " << i;
      EXPECT_EQ(actual.choices[k].logprobs, expected.choices[k].logprobs) << "request " << i;
    }
  }
  EXPECT_EQ(gpu.stats.drafted, cpu.stats.drafted);
  EXPECT_EQ(gpu.stats.accepted, cpu.stats.accepted);
  return gpu.stats;
}

EngineStats stats_on_gpu(EngineOptions options, const std::vector<Request>& requests) {
  options.device = "cuda";
  const auto engine = load_engine(options);
  if (engine == nullptr) return {};
  run_all(*engine, requests);
  return engine->stats();
}

std::vector<std::string> models_in(const std::string& folder, const std::string& prefix) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(data_file(folder))) {
    const std::string name = entry.path().filename();
    if (entry.path().extension() == ".gguf" && name.substr(0, prefix.size()) == prefix) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  EXPECT_GT(paths.size(), 3u);
  return paths;
}

TEST_F(GpuIdentity, EveryFormatOfWeights) {
  for (const std::string& model : models_in("tiny", "tiny_")) {
    SCOPED_TRACE(model);
    expect_identical(small_options(model), mixed_requests(200, "fixed:3"));
  }
  for (const char* model : {"tiny_gqa_tied_q8_0", "tiny_gqa_untied_q4_0", "tiny_mqa_tied_q6_k"}) {
    EngineOptions options = small_options(tiny_model(model));
    options.activations = ActivationKind::kInt16;
    expect_identical(options, mixed_requests(200, "fixed:3"));
  }
}

// A graph serves longer contexts than those that it was recorded with.
TEST_F(GpuIdentity, GraphsServeContextsThatGrow) {
  for (const std::string& model : {tiny_model("tiny_gqa_tied_q8_0"), data_file("architectures/phi3_window.gguf")}) {
    SCOPED_TRACE(model);
    const EngineOptions options = small_options(model);
    std::vector<Request> requests = mixed_requests(200, "fixed:2");
    requests.resize(2);
    for (size_t r = 0; r < requests.size(); ++r) {
      Request& request = requests[r];
      while (request.prompt_tokens.size() < 60 + 15 * r) {
        request.prompt_tokens.push_back(static_cast<TokenId>(request.prompt_tokens.size() * 7 % 200));
      }
      request.n = 3;
      request.max_tokens = 30;
    }
    expect_identical(options, requests);
    const GraphCounts graphs = stats_on_gpu(options, requests).graphs;
    EXPECT_GT(graphs.recorded, 0);
    EXPECT_GT(graphs.replayed, 2 * graphs.recorded);
  }
}

TEST_F(GpuIdentity, EveryArchitecture) {
  for (const std::string& model : models_in("architectures", "")) {
    SCOPED_TRACE(model);
    expect_identical(small_options(model), mixed_requests(100, "fixed:2"));
  }
}

TEST_F(GpuIdentity, EveryLayoutAndCache) {
  const std::string model = tiny_model("tiny_gqa_tied_q8_0");
  for (const AttentionKind attention :
       {AttentionKind::kPad, AttentionKind::kSplit, AttentionKind::kSplitGrouped, AttentionKind::kFused}) {
    for (const KvKind kv : {KvKind::kInt16, KvKind::kInt8}) {
      EngineOptions options = small_options(model, model);
      options.attention = attention;
      options.kv = kv;
      const SpeculationStats stats = expect_identical(options, mixed_requests(200, "fixed:5"));
      EXPECT_GT(stats.accepted, 0);
    }
  }
}

TEST_F(GpuIdentity, EveryRuleOfVerificationWithADraftModel) {
  TempFolder folder;
  const std::string model = tiny_model("tiny_gqa_untied_q4_0");
  const std::string draft = folder / "draft.gguf";
  write_truncated_model(model, 1, draft);
  for (const VerifyRule rule : {VerifyRule::kMatch, VerifyRule::kRejection, VerifyRule::kBlock}) {
    std::vector<Request> requests = mixed_requests(200, "fixed:4");
    for (Request& request : requests) {
      request.speculation.verify = rule;
      request.speculation.drafter = DrafterChoice::kModel;
    }
    const SpeculationStats stats = expect_identical(small_options(model, draft), requests);
    EXPECT_GT(stats.drafted, 0);
  }
}

TEST_F(GpuIdentity, EveryDraftMadeForAMainModel) {
  const std::string model = tiny_model("tiny_gqa_tied_f32");
  int n_drafted = 0;
  for (const std::string& draft : models_in("tiny", "draft_")) {
    SCOPED_TRACE(draft);
    EngineOptions options = small_options(model, draft);
    if (!Engine::load(options).ok()) continue;  // made for another main model
    std::vector<Request> requests = mixed_requests(200, "fixed:3");
    for (Request& request : requests) request.speculation.drafter = DrafterChoice::kModel;
    n_drafted += expect_identical(options, requests).drafted > 0 ? 1 : 0;
  }
  EXPECT_GE(n_drafted, 3);
}

// Answers in JSON and of a pattern, beside one that is free.
std::vector<Request> constrained_requests(const std::string& draft_length) {
  std::vector<Request> requests;
  for (const char* prompt : {"Pets: ", "I think", "{\"kind\": \"dodo\", ", "The end"}) {
    Request request;
    request.prompt = prompt;
    request.n = 2;
    request.job = 1;
    request.max_tokens = 40;
    request.seed = 7 + requests.size();
    request.sampling.temperature = requests.size() == 2 ? 0.0f : 1.0f;
    request.speculation.draft_length = draft_length;
    if (requests.size() != 1) {
      request.json_schema = R"({"properties": {"kind": {"enum": ["cat", "dodo"]}, "legs": {"type": "integer"}},
                                "required": ["kind", "legs"]})";
    }
    requests.push_back(request);
  }
  requests[3].json_schema.reset();
  requests[3].regex = "(the|and|ing)+(, [a-c]{2,9})*\\.";
  requests[3].sampling.repetition_penalty = 1.1f;
  requests.push_back(requests.front());  // one that thinks first, and must not for long
  requests.back().messages = {{"user", "What is a fork?"}, {"assistant", "<think>\nA fork"}};
  requests.back().continue_final_message = true;
  requests.back().json_schema.reset();
  requests.back().thinking_budget = 6;
  return requests;
}

// Of model drafts each token is waited for: what may come behind it depends on it.
TEST_F(GpuIdentity, AnswersThatFollowAGrammar) {
  const std::string model = tiny_model(kTinyModel);
  const std::pair<const char*, VerifyRule> cases[] = {{"draft_feature_q8_0", VerifyRule::kMatch},
                                                      {"draft_feature_q8_0", VerifyRule::kRejection},
                                                      {"draft_feature_q8_0", VerifyRule::kBlock},
                                                      {"draft_padded", VerifyRule::kBlock}};
  for (const auto& [draft, rule] : cases) {
    SCOPED_TRACE(std::string(draft) + ", rule " + std::to_string(static_cast<int>(rule)));
    std::vector<Request> requests = constrained_requests("fixed:4");
    for (Request& request : requests) {
      request.speculation.drafter = DrafterChoice::kModel;
      request.speculation.verify = rule;
    }
    const SpeculationStats stats = expect_identical(small_options(model, tiny_model(draft)), requests);
    EXPECT_GT(stats.drafted, 100);
    EXPECT_GT(stats.accepted, 10);
  }
  std::vector<Request> requests = constrained_requests("fixed:4");
  for (Request& request : requests) request.n = 1;  // what n-grams find depends on how far the other samples are
  EXPECT_GT(expect_identical(small_options(model), requests).accepted, 10);
}

// Whatever is drafted.
TEST_F(GpuIdentity, AGrammarGivesTheSameAnswersWithoutDrafts) {
  const std::string model = tiny_model(kTinyModel);
  for (const char* draft_length : {"off", "goodput"}) {
    const Results cpu = run_on("cpu", small_options(model), constrained_requests("off"));
    const Results gpu =
        run_on("cuda", small_options(model, tiny_model("draft_feature_q8_0")), constrained_requests(draft_length));
    ASSERT_EQ(gpu.requests.size(), cpu.requests.size());
    for (size_t i = 0; i < cpu.requests.size(); ++i) {
      for (size_t k = 0; k < cpu.requests[i].choices.size(); ++k) {
        EXPECT_EQ(gpu.requests[i].choices[k].text, cpu.requests[i].choices[k].text) << i;
        EXPECT_EQ(gpu.requests[i].choices[k].reason, cpu.requests[i].choices[k].reason) << i;
      }
    }
  }
}

// A byte that no token has: the sample ends with an error, the engine lives on.
TEST_F(GpuIdentity, WhatTheVocabularyCannotSpell) {
  Request request;
  request.prompt = "I";
  request.max_tokens = 3;
  request.seed = 1;
  std::vector<Request> requests(2, request);
  requests[0].regex = "a\\x04";
  requests[1].regex = "a[a-z]";
  const EngineOptions options{.model_path = default_model(), .max_batch = 2, .n_threads = 2, .context_len = 64};
  expect_identical(options, requests);
  const std::vector<RequestResult> results = run_on("cuda", options, requests).requests;
  ASSERT_EQ(results.size(), 2u);
  EXPECT_THAT(results[0].choices[0].error, HasSubstr("its vocabulary lacks bytes"));
  EXPECT_EQ(results[0].choices[0].text, "a");
  EXPECT_EQ(results[1].choices[0].error, "");
}

TEST_F(GpuIdentity, MostProbableTokens) {
  const std::string model = tiny_model("tiny_gqa_tied_q8_0");
  for (const VerifyRule rule : {VerifyRule::kMatch, VerifyRule::kRejection, VerifyRule::kBlock}) {
    std::vector<Request> requests = mixed_requests(200, "fixed:4");
    for (size_t i = 0; i < requests.size(); ++i) {
      requests[i].top_logprobs = static_cast<int>(5 * i);  // from none to 20
      requests[i].speculation.verify = rule;
    }
    expect_identical(small_options(model, model), requests);
  }
}

// EngineOptions::scripted_acceptance. The draft is the model itself: without the script all is accepted.
TEST_F(GpuIdentity, AcceptanceThatIsScripted) {
  const std::string model = tiny_model("tiny_gqa_tied_q8_0");
  const std::pair<VerifyRule, float> cases[] = {{VerifyRule::kMatch, 0.0f},
                                                {VerifyRule::kMatch, 1.0f},
                                                {VerifyRule::kMatch, 0.6f},
                                                {VerifyRule::kRejection, 0.6f},
                                                {VerifyRule::kBlock, 0.6f}};
  for (const auto& [rule, acceptance] : cases) {
    SCOPED_TRACE(acceptance);
    EngineOptions options = small_options(model, model);
    options.scripted_acceptance = acceptance;
    std::vector<Request> requests = mixed_requests(200, "fixed:1");
    for (Request& request : requests) {
      request.max_tokens = 28;
      request.stop_token_ids.clear();
      request.speculation.drafter = DrafterChoice::kModel;
      request.speculation.verify = rule;
    }
    const SpeculationStats stats = expect_identical(options, requests);
    EXPECT_GT(stats.drafted, 120);
    const double share = static_cast<double>(stats.accepted) / static_cast<double>(stats.drafted);
    EXPECT_NEAR(share, acceptance, 0.15);  // more than three standard deviations
  }
}

TEST_F(GpuIdentity, TheDefaultModel) {
  EngineOptions options{.model_path = default_model(), .max_batch = 4, .n_threads = 2, .context_len = 128};
  std::vector<Request> requests;
  for (const char* prompt : {"The three states of matter are", "red, green, blue, red, green,"}) {
    Request request;
    request.prompt = prompt;
    request.max_tokens = 4;
    request.seed = 3;
    request.sampling.temperature = requests.empty() ? 0.0f : 0.8f;
    request.speculation.draft_length = "fixed:3";
    requests.push_back(request);
  }
  expect_identical(options, requests);
}

TEST_F(GpuIdentity, WhatCannotBeUsedIsToldClearly) {
  EngineOptions options = small_options(tiny_model("tiny_gqa_tied_f32"));
  options.device = "cuda:99";
  const Result<std::unique_ptr<Engine>> missing = Engine::load(options);
  ASSERT_FALSE(missing.ok());
  EXPECT_THAT(missing.status().message(), HasSubstr("--device cuda:99: there is no GPU 99"));
  options.device = "cuda:x";
  const Result<std::unique_ptr<Engine>> wrong = Engine::load(options);
  ASSERT_FALSE(wrong.ok());
  EXPECT_THAT(wrong.status().message(), HasSubstr("must be auto, cpu, cuda or cuda:N"));
}

}  // namespace
}  // namespace bass::testing
