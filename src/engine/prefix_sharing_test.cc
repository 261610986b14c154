// Texts that begin alike share what was computed of it: the bits are those of every prompt read anew, whoever comes
// first, runs beside it, ends, is cancelled, or is forgotten for want of room.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "support/engine_run.h"
#include "support/gguf_builder.h"
#include "support/made_up_prompt.h"
#include "support/temp_folder.h"
#include "support/test_models.h"

namespace bass::testing {
namespace {

constexpr int kPageLen = 32;

std::vector<TokenId> joined(std::vector<TokenId> begin, const std::vector<TokenId>& end) {
  begin.insert(begin.end(), end.begin(), end.end());
  return begin;
}

// Prompts that share no page, some of one, all of a prompt, or what ends in the middle of a page; and samples.
std::vector<Request> requests_that_begin_alike() {
  const std::vector<TokenId> system = prompt_of(100, 3 * kPageLen + 5);
  const std::vector<TokenId> examples = joined(system, prompt_of(101, 2 * kPageLen));
  std::vector<Request> requests;
  for (int i = 0; i < 14; ++i) {
    const std::vector<TokenId> own = prompt_of(i, 1 + i * 11 % 70);
    Request request = greedy_request(i % 5 == 0 ? own : joined(i % 2 == 0 ? system : examples, own), 6 + i * 7 % 50);
    if (i == 7) request.prompt_tokens = requests[3].prompt_tokens;
    if (i == 9) request.prompt_tokens.resize(4 * kPageLen + 1);  // whole pages are all that is read of it
    request.n = 1 + i % 3;
    if (i % 4 != 0) {
      request.seed = 50 + static_cast<uint64_t>(i);
      request.sampling.temperature = 0.9f;
    }
    request.speculation.verify = VerifyRule::kMatch;
    requests.push_back(request);
  }
  return requests;
}

EngineOptions options_of(int max_batch) {
  return {.model_path = tiny_model(kTinyModel), .max_batch = max_batch, .n_threads = 2};
}

std::vector<RequestResult> run_each_anew(std::vector<Request> requests) {
  EngineOptions options = options_of(1);
  options.prefix_cache_mib = 0;
  for (Request& request : requests) request.speculation.drafter = DrafterChoice::kOff;
  auto engine = load_engine(options);
  std::vector<RequestResult> results = run_all(*engine, requests);
  EXPECT_EQ(engine->stats().cached_tokens, 0);
  return results;
}

struct SharingCase {
  std::string draft;  // a file in tiny/, or "" (n-grams)
  std::string draft_length;
  int max_batch;
  int max_step_tokens;
  AttentionKind attention;
  int64_t kv_memory_mib;  // all of it may be idle; 1 holds 128 pages of the main model, so that much is forgotten

  friend std::ostream& operator<<(std::ostream& out, const SharingCase& test) {
    return out << test.draft << ", " << test.draft_length << ", batch " << test.max_batch << ", " << test.kv_memory_mib
               << " MiB";
  }
};

class PrefixSharing : public ::testing::TestWithParam<SharingCase> {};

TEST_P(PrefixSharing, GivesTheTokensOfPromptsThatAreReadAnew) {
  const SharingCase& test = GetParam();
  std::vector<Request> requests = requests_that_begin_alike();
  const std::vector<RequestResult> expected = run_each_anew(requests);
  EngineOptions options = options_of(test.max_batch);
  options.max_step_tokens = test.max_step_tokens;
  options.attention = test.attention;
  options.kv_memory_mib = options.prefix_cache_mib = test.kv_memory_mib;
  if (!test.draft.empty()) options.draft_path = tiny_model(test.draft);
  auto engine = load_engine(options);
  ASSERT_NE(engine, nullptr);
  for (Request& request : requests) request.speculation.draft_length = test.draft_length;
  for (int time = 0; time < 3; ++time) {  // the second time, of texts that have ended
    SCOPED_TRACE(time);
    expect_same_outputs(expected, run_all(*engine, requests));
  }
  const EngineStats stats = engine->stats();
  EXPECT_GT(stats.cached_tokens, 20 * kPageLen) << "nothing was shared: the test proves nothing";
  int64_t n_prompt_tokens = 0;
  for (const Request& request : requests) n_prompt_tokens += static_cast<int64_t>(request.prompt_tokens.size()) - 1;
  EXPECT_EQ(stats.prefill_tokens + stats.cached_tokens, 3 * n_prompt_tokens);
  EXPECT_GT(stats.speculation.drafted, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Batches, PrefixSharing,
    ::testing::Values(SharingCase{"", "fixed:3", 32, 256, AttentionKind::kFused, 16},
                      SharingCase{"", "bass", 1, 24, AttentionKind::kFused, 16},
                      SharingCase{"", "fixed:2", 6, 64, AttentionKind::kPad, 1},
                      SharingCase{"draft_padded", "fixed:3", 32, 256, AttentionKind::kFused, 16},
                      SharingCase{"draft_padded", "bass", 4, 40, AttentionKind::kSplit, 1},
                      SharingCase{"draft_padded", "goodput", 8, 256, AttentionKind::kFused, 1},
                      SharingCase{"draft_feature_f32", "fixed:4", 32, 100, AttentionKind::kFused, 16},
                      SharingCase{"draft_feature_q8_0", "survival:min=0.05", 5, 24, AttentionKind::kFused, 1},
                      SharingCase{"draft_shallow_f32", "fixed:2", 8, 256, AttentionKind::kFused, 2}),
    [](const auto& test) { return "Case" + std::to_string(test.index); });

struct ModelCase {
  std::string model;
  KvKind kv = KvKind::kInt16;

  friend std::ostream& operator<<(std::ostream& out, const ModelCase& test) { return out << test.model; }
};

class PrefixSharingOf : public ::testing::TestWithParam<ModelCase> {};

// Of windows, experts, scores with a cap, caches of bytes, and rotations that depend on how long a text may become.
TEST_P(PrefixSharingOf, ModelsOfManyKindsGivesTheTokensOfPromptsThatAreReadAnew) {
  EngineOptions options = options_of(3);
  options.model_path = data_file(GetParam().model + ".gguf");
  const TempFolder folder;
  if (GetParam().model.ends_with("longrope")) {  // between the lengths below
    const std::string key = "phi3.rope.scaling.original_context_length";
    const ModelEdit edit{.without = key, .add = [&](GgufBuilder& gguf) { gguf.add_u32(key, 64); }};
    write_edited_model(options.model_path, edit, folder / "longrope.gguf");
    options.model_path = folder / "longrope.gguf";
  }
  options.kv = GetParam().kv;
  std::vector<Request> requests;
  for (int i = 0; i < 8; ++i) {
    const std::vector<TokenId> begin = prompt_of(1, kPageLen + 4);
    requests.push_back(greedy_request(joined(begin, prompt_of(i, 1 + i % 3)), i % 4 < 2 ? 5 : 80));
    requests.back().n = 1 + i % 2;
  }
  EngineOptions anew = options;
  anew.prefix_cache_mib = 0;
  const std::vector<RequestResult> expected = run_all(*load_engine(anew), requests);
  auto engine = load_engine(options);
  for (int time = 0; time < 2; ++time) expect_same_outputs(expected, run_all(*engine, requests));
  EXPECT_GE(engine->stats().cached_tokens, 10 * kPageLen);
}

INSTANTIATE_TEST_SUITE_P(Kinds, PrefixSharingOf,
                         ::testing::Values(ModelCase{"architectures/phi3_longrope"},
                                           ModelCase{"architectures/phi3_window"},
                                           ModelCase{"architectures/gemma3_q8_0", KvKind::kInt8},
                                           ModelCase{"architectures/gemma2"}, ModelCase{"architectures/mixtral_q8_0"},
                                           ModelCase{"tiny/tiny_gqa_tied_q4_1", KvKind::kInt8}),
                         [](const auto& test) { return "Case" + std::to_string(test.index); });

// Drafts that are judged by tokens do not change them: what the draft model's pages hold shows in how many are right.
TEST(PrefixSharing, DraftsAreAsGoodAsBehindPromptsThatAreReadAnew) {
  std::vector<Request> requests;
  const std::vector<TokenId> begin = prompt_of(1, 3 * kPageLen);
  for (int i = 0; i < 6; ++i) {
    requests.push_back(greedy_request(joined(begin, prompt_of(20 + i, 5 + 9 * i)), 40));
    requests.back().speculation.drafter = DrafterChoice::kModel;
    requests.back().speculation.draft_length = "fixed:4";
    requests.back().n = 1 + i % 2;
  }
  for (const char* const draft : {"draft_padded", "draft_shallow_f32"}) {
    std::vector<int64_t> n_accepted;
    for (const int64_t mib : {0, 8}) {
      EngineOptions options = options_of(2);
      options.draft_path = tiny_model(draft);
      options.kv_memory_mib = 16;
      options.prefix_cache_mib = mib;
      auto engine = load_engine(options);
      for (int time = 0; time < 2; ++time) run_all(*engine, requests);
      n_accepted.push_back(engine->stats().speculation.accepted);
      EXPECT_EQ(engine->stats().cached_tokens > 10 * kPageLen, mib > 0);
    }
    EXPECT_EQ(n_accepted[0], n_accepted[1]) << draft;
    EXPECT_GT(n_accepted[0], 0) << draft;
  }
}

TEST(PrefixSharing, WhatWasDraftedBehindAStopStringIsNotKept) {
  EngineOptions options = options_of(1);
  options.draft_path = tiny_model("draft_padded");
  auto engine = load_engine(options);
  Request request = greedy_request(prompt_of(5, 40), 80);
  const RequestResult whole = run_each_anew({request}).front();
  const std::string& text_of_all = whole.choices[0].text;
  int n_stopped = 0;
  for (size_t at = 10; at + 2 < text_of_all.size(); ++at) {
    request.speculation.draft_length = "fixed:8";
    request.stop = {text_of_all.substr(at, 2)};
    if (std::ranges::any_of(request.stop[0], [](char c) { return static_cast<unsigned char>(c) >= 0x80; })) continue;
    ++n_stopped;
    const RequestResult stopped = run_one(*engine, request);
    ASSERT_EQ(stopped.choices[0].reason, FinishReason::kStop);
    // Other tokens follow than those that were drafted behind the end.
    const std::vector<TokenId> text = joined(request.prompt_tokens, stopped.choices[0].tokens);
    const Request next = greedy_request(joined(text, prompt_of(static_cast<int>(at), 40)), 10);
    expect_same_outputs(run_each_anew({next}), {run_one(*engine, next)});
  }
  EXPECT_GE(n_stopped, 5);
  EXPECT_GT(engine->stats().speculation.accepted, 0);
}

// The control of the identity above: what is in front of a page decides what follows it.
TEST(PrefixSharingControl, PagesOfTheSameTokensBehindOthersAreNotTheSame) {
  const std::vector<TokenId> common = prompt_of(1, 2 * kPageLen);
  const Request first = greedy_request(joined(prompt_of(2, kPageLen), common), 20);
  const Request second = greedy_request(joined(prompt_of(3, kPageLen), common), 20);
  auto engine = load_engine(options_of(4));
  const RequestResult a = run_one(*engine, first);
  const RequestResult b = run_one(*engine, second);
  EXPECT_EQ(engine->stats().cached_tokens, 0);
  EXPECT_NE(a.choices[0].tokens, b.choices[0].tokens);
  expect_same_outputs(run_each_anew({first, second}), {a, b});
}

TEST(PrefixSharing, AConversationGoesOnWhereItsLastAnswerEnded) {
  auto engine = load_engine(options_of(4));
  const Request first = greedy_request(prompt_of(1, 50), 60);
  const RequestResult answer = run_one(*engine, first);
  Request second = first;
  second.prompt_tokens = joined(joined(first.prompt_tokens, answer.choices[0].tokens), prompt_of(4, 20));
  const RequestResult next = run_one(*engine, second);
  // 109 tokens of the first text were fed to the model.
  EXPECT_EQ(engine->stats().cached_tokens, 3 * kPageLen);
  expect_same_outputs(run_each_anew({second}), {next});
}

// Conversations that take turns, more than run at once: what was set aside for texts that have ended is theirs, however
// few texts run.
TEST(PrefixSharing, ANamedCacheIsNotBoundedByTheBatch) {
  EngineOptions options = options_of(1);
  options.context_len = 128;
  const auto n_cached = [&](std::optional<int64_t> kv_memory_mib, std::optional<int64_t> prefix_cache_mib) {
    options.kv_memory_mib = kv_memory_mib;
    options.prefix_cache_mib = prefix_cache_mib;
    auto engine = load_engine(options);
    for (int time = 0; time < 2; ++time) {
      for (int i = 0; i < 12; ++i) run_one(*engine, greedy_request(prompt_of(i, 3 * kPageLen + 1), 2));
    }
    return engine->stats().cached_tokens;
  };
  constexpr int64_t kAll = 12 * 3 * kPageLen;
  EXPECT_EQ(n_cached(std::nullopt, 8), kAll);
  EXPECT_EQ(n_cached(8, std::nullopt), kAll) << "a quarter";
  EXPECT_EQ(n_cached(8, 4), kAll);
  EXPECT_EQ(n_cached(std::nullopt, std::nullopt), 0) << "as few as are of use to what runs";
  EXPECT_EQ(n_cached(8, 0), 0);
}

TEST(PrefixSharing, PromptsThatComeTogetherAreReadOnce) {
  EngineOptions options = options_of(16);
  options.max_step_tokens = 70;
  auto engine = load_engine(options);
  const std::vector<TokenId> common = prompt_of(1, 6 * kPageLen);
  std::vector<Request> requests;
  for (int i = 0; i < 8; ++i) requests.push_back(greedy_request(joined(common, prompt_of(10 + i, 9)), 10));
  const std::vector<RequestResult> results = run_all(*engine, requests);
  EXPECT_EQ(engine->stats().prefill_tokens, 6 * kPageLen + 8 * 8);
  EXPECT_EQ(engine->stats().cached_tokens, 7 * 6 * kPageLen);
  expect_same_outputs(run_each_anew(requests), results);
}

TEST(PrefixSharing, LogProbabilitiesOfAPromptAreComputedWithAllOfIt) {
  const std::vector<TokenId> prompt = prompt_of(1, 100);
  auto engine = load_engine(options_of(2));
  const RequestResult before = score(*engine, prompt);
  run_one(*engine, greedy_request(prompt, 5));
  const RequestResult after = score(*engine, prompt);
  EXPECT_EQ(engine->stats().cached_tokens, 0);
  EXPECT_EQ(before.prompt.prompt_logprobs, after.prompt.prompt_logprobs);
  EXPECT_EQ(after.prompt.prompt_logprobs.size(), 99u);
}

TEST(PrefixSharing, WhoWaitsForACancelledPromptReadsItItself) {
  EngineOptions options = options_of(4);
  options.max_step_tokens = 16;
  auto engine = load_engine(options);
  const Request request = greedy_request(prompt_of(1, 240), 10);
  const std::vector<RequestResult> expected = run_each_anew({request});
  for (int i = 0; i < 10; ++i) {
    auto events = std::make_shared<EventQueue>();
    const RequestId first = engine->submit(request, events).value();
    const RequestId second = engine->submit(request, events).value();
    engine->cancel(first);
    RequestResult result;
    bool is_first_done = false, is_second_done = false;
    for (Event event; !(is_first_done && is_second_done) && events->wait(&event, std::chrono::seconds(100));
         event = {}) {
      is_first_done |= event.request_id == first && event.kind == Event::Kind::kDone;
      if (event.request_id == second) is_second_done |= collect(event, &result);
    }
    ASSERT_TRUE(is_first_done && is_second_done);
    expect_same_outputs(expected, {result});
  }
}

// Pages of the draft model lie beside those of the main model for some texts and not for others, and there is room for
// few of either.
TEST(PrefixSharing, NoPageIsMissingWhereRequestsWithAndWithoutDraftsMix) {
  EngineOptions options = options_of(12);
  options.draft_path = tiny_model("draft_padded");
  options.kv_memory_mib = options.prefix_cache_mib = 1;
  options.max_step_tokens = 48;
  auto engine = load_engine(options);
  ASSERT_NE(engine, nullptr);
  const std::vector<TokenId> system = prompt_of(100, 2 * kPageLen + 3);
  std::vector<Request> requests;
  for (int i = 0; i < 40; ++i) {
    Request request = greedy_request(joined(system, prompt_of(i % 7, 1 + i % 5 * 25)), 8 + i * 13 % 60);
    request.n = 1 + i % 4;
    request.seed = static_cast<uint64_t>(i % 9);
    request.sampling.temperature = 0.8f;
    request.speculation.verify = VerifyRule::kMatch;
    request.speculation.draft_length = i % 3 == 0 ? "goodput" : "fixed:3";
    request.speculation.drafter = i % 4 == 1   ? DrafterChoice::kNgram
                                  : i % 4 == 2 ? DrafterChoice::kOff
                                               : DrafterChoice::kModel;
    requests.push_back(request);
  }
  const std::vector<RequestResult> expected = run_each_anew(requests);
  for (int time = 0; time < 3; ++time) {
    expect_same_outputs(expected, run_all(*engine, requests));
  }
  EXPECT_GT(engine->stats().cached_tokens, 100 * kPageLen);
}

TEST(PrefixSharing, SaysHowMuchOfAPromptWasThere) {
  auto engine = load_engine(options_of(4));
  const Request request = greedy_request(prompt_of(1, 2 * kPageLen + 1), 5);
  for (const int n_cached : {0, 2 * kPageLen}) {
    auto events = std::make_shared<EventQueue>();
    ASSERT_TRUE(engine->submit(request, events).ok());
    int n_said = 0;
    for (Event event; events->wait(&event, std::chrono::seconds(100)); event = {}) {
      if (event.kind != Event::Kind::kPrompt && event.kind != Event::Kind::kDone) continue;
      EXPECT_EQ(event.n_cached_tokens, n_cached);
      ++n_said;
      if (event.kind == Event::Kind::kDone) break;
    }
    EXPECT_EQ(n_said, 2);
  }
}

}  // namespace
}  // namespace bass::testing
