// The engine on tiny random models: identity of speculation and regular decoding in ragged batches, admission by KV
// budget, ends of all kinds. Real text and real log-probabilities are in tests/.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <thread>
#include <utility>

#include "engine/scheduler.h"
#include "support/can_populate.h"
#include "support/engine_run.h"
#include "support/made_up_prompt.h"
#include "support/temp_folder.h"
#include "support/test_models.h"
#include "support/timed_executor.h"

namespace bass::testing {
namespace {

std::string random_draft(size_t n_dropped, const TempFolder& folder) {
  std::string path = folder / "random.gguf";
  write_random_model(tiny_model(kTinyModel), 7, path, n_dropped);
  return path;
}

// One workload of many kinds of request: lengths, temperatures and processors differ, so that in one step some
// sequences accept everything, some a part, some nothing, some end and others enter.
std::vector<Request> mixed_requests(bool seeded_sampling) {
  std::vector<Request> requests;
  for (int i = 0; i < 12; ++i) {
    Request request = greedy_request(prompt_of(i, 1 + i * 5 % 40), 5 + i * 7 % 30);
    request.n = 1 + i % 3;
    if (seeded_sampling && i % 4 != 0) {
      request.seed = 1000 + static_cast<uint64_t>(i);
      request.sampling.temperature = 0.5f + 0.25f * static_cast<float>(i % 4);
      if (i % 2 == 0) request.sampling.top_k = 20;
      if (i % 3 == 0) request.sampling.top_p = 0.9f;
      if (i % 5 == 0) request.sampling.min_p = 0.02f;
      if (i % 4 == 2) request.sampling.repetition_penalty = 1.2f;
      if (i % 4 == 3) request.sampling.frequency_penalty = 0.3f;
      if (i % 6 == 1) request.sampling.logit_bias = {{17, 2.0f}, {40, -3.0f}};
      if (i % 4 == 1) request.min_tokens = 4, request.stop_token_ids = {5, 17, 30, 33, 60, 71};
    }
    requests.push_back(request);
  }
  return requests;
}

std::vector<RequestResult> run_regular(const std::vector<Request>& requests) {
  auto engine = load_engine({.model_path = tiny_model(kTinyModel), .max_batch = 1, .n_threads = 1});
  std::vector<Request> regular = requests;
  for (Request& request : regular) request.speculation.drafter = DrafterChoice::kOff;
  return run_all(*engine, regular);
}

struct IdentityCase {
  std::string draft;  // "self", "padded", "random", "" (n-grams), or a file that was made for the main model
  std::string draft_length;
  int max_batch;
  int n_threads;
  AttentionKind attention;

  friend std::ostream& operator<<(std::ostream& out, const IdentityCase& test) {
    return out << test.draft_length << ", batch " << test.max_batch << ", " << test.n_threads << " threads";
  }
};

class Identity : public ::testing::TestWithParam<IdentityCase> {};

TEST_P(Identity, GreedyAndSeededMatchEqualRegularDecoding) {
  const IdentityCase& test = GetParam();
  EngineOptions options{.model_path = tiny_model(kTinyModel), .max_batch = test.max_batch, .n_threads = test.n_threads};
  options.attention = test.attention;
  options.max_step_tokens = 24;  // prompts are cut into chunks beside running sequences
  const TempFolder folder;
  if (test.draft == "self") options.draft_path = tiny_model(kTinyModel);
  if (test.draft == "padded") options.draft_path = tiny_model("draft_padded");
  if (test.draft.starts_with("draft_")) options.draft_path = tiny_model(test.draft);
  if (test.draft == "random") options.draft_path = random_draft(0, folder);
  if (test.draft == "smaller") options.draft_path = random_draft(20, folder);  // the prompts have tokens that it lacks
  // goodput drafts only where that pays, which on a tiny model may be nowhere: its steps take longer.
  const Pace pace = constant_pace(test.draft_length == "goodput" ? 1e-3 : 0);
  auto engine = load_timed_engine(options, &pace);
  ASSERT_NE(engine, nullptr);
  std::vector<Request> requests = mixed_requests(/*seeded_sampling=*/true);
  const std::vector<RequestResult> expected = run_regular(requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].speculation.draft_length = test.draft_length;
    requests[i].speculation.verify = VerifyRule::kMatch;
    if (i % 5 == 4) requests[i].speculation.drafter = DrafterChoice::kOff;  // off inside a batch where others draft
  }
  // Times of a busy machine may tell goodput that nothing pays; by and by it looks again.
  constexpr int kMaxRuns = 10;
  SpeculationStats stats;
  for (int run = 0; run < kMaxRuns && stats.drafted == 0; ++run) {
    expect_same_outputs(expected, run_all(*engine, requests));
    stats = engine->stats().speculation;
  }
  EXPECT_GT(stats.drafted, 0) << "nothing was drafted: the test proves nothing";
  if (test.draft == "self") {  // n-grams are tried first, and may be wrong
    EXPECT_GT(stats.accepted, stats.drafted / 2);
  }
}

INSTANTIATE_TEST_SUITE_P(Batches, Identity,
                         ::testing::Values(IdentityCase{"", "bass", 1, 1, AttentionKind::kFused},
                                           IdentityCase{"", "fixed:3", 32, 2, AttentionKind::kPad},
                                           IdentityCase{"self", "bass", 4, 2, AttentionKind::kSplit},
                                           IdentityCase{"self", "fixed:32", 3, 1, AttentionKind::kPad},
                                           IdentityCase{"self", "fixed:2", 5, 2, AttentionKind::kSplitGrouped},
                                           IdentityCase{"padded", "bass", 32, 2, AttentionKind::kPad},
                                           IdentityCase{"padded", "fixed:1", 2, 3, AttentionKind::kFused},
                                           IdentityCase{"padded", "bass:l0=2,inc=1,max=5", 8, 1, AttentionKind::kFused},
                                           IdentityCase{"random", "bass", 8, 2, AttentionKind::kFused},
                                           IdentityCase{"random", "fixed:6", 1, 2, AttentionKind::kPad},
                                           IdentityCase{"padded", "goodput", 8, 2, AttentionKind::kFused},
                                           IdentityCase{"", "goodput", 32, 2, AttentionKind::kFused},
                                           IdentityCase{"padded", "survival", 8, 2, AttentionKind::kFused},
                                           IdentityCase{"draft_feature_f32", "survival:min=0.05", 8, 2,
                                                        AttentionKind::kFused},
                                           IdentityCase{"self", "survival:min=0.5", 5, 1, AttentionKind::kSplit},
                                           IdentityCase{"draft_feature_f32", "fixed:4", 8, 2, AttentionKind::kFused},
                                           IdentityCase{"draft_feature_q8_0", "bass", 3, 2, AttentionKind::kPad},
                                           IdentityCase{"draft_feature_q8_0", "goodput", 32, 1, AttentionKind::kSplit},
                                           IdentityCase{"draft_shallow_f32", "fixed:2", 5, 2, AttentionKind::kFused},
                                           IdentityCase{"draft_head_q4_0", "fixed:3", 6, 2, AttentionKind::kFused},
                                           IdentityCase{"smaller", "fixed:4", 8, 2, AttentionKind::kFused}),
                         [](const auto& test) {
                           const std::string draft = test.param.draft.empty() ? "ngram" : test.param.draft;
                           const std::string& length = test.param.draft_length;
                           return draft + "_" + length.substr(0, length.find(':')) + "_" + std::to_string(test.index);
                         });

// The negative control of the identity test: another seed, or a draft that is believed without a look, must show.
TEST(IdentityControl, AnotherSeedGivesOtherTokens) {
  std::vector<Request> requests = mixed_requests(true);
  const std::vector<RequestResult> expected = run_regular(requests);
  for (Request& request : requests) {
    if (request.seed) *request.seed += 1;
  }
  const std::vector<RequestResult> other = run_regular(requests);
  int n_different = 0;
  for (size_t i = 0; i < expected.size(); ++i)
    n_different += expected[i].choices[0].tokens != other[i].choices[0].tokens;
  EXPECT_GE(n_different, 6);
}

TEST(Engine, SamplesOfOnePromptDifferAndDoNotDependOnTheBatchTheyRunIn) {
  Request request = greedy_request(prompt_of(3, 37), 20);
  request.sampling.temperature = 1.0f;
  request.seed = 5;
  request.n = 9;
  auto wide = load_engine({.model_path = tiny_model(kTinyModel), .max_batch = 9, .n_threads = 2});
  auto narrow = load_engine({.model_path = tiny_model(kTinyModel), .max_batch = 2, .n_threads = 1});
  const RequestResult a = run_one(*wide, request);
  const RequestResult b = run_one(*narrow, request);
  expect_same_outputs({a}, {b});
  EXPECT_NE(a.choices[0].tokens, a.choices[1].tokens);
}

TEST(Engine, RejectionWithASeedAndAFixedLengthIsReproducible) {
  Request request = greedy_request(prompt_of(1, 20), 40);
  request.sampling.temperature = 1.0f;
  request.seed = 9;
  request.speculation.verify = VerifyRule::kRejection;
  request.speculation.draft_length = "fixed:4";
  request.speculation.drafter = DrafterChoice::kModel;
  request.n = 4;
  auto engine =
      load_engine({.model_path = tiny_model(kTinyModel), .draft_path = tiny_model("draft_padded"), .n_threads = 2});
  const RequestResult a = run_one(*engine, request);
  const RequestResult b = run_one(*engine, request);
  expect_same_outputs({a}, {b});
  const SpeculationStats stats = engine->stats().speculation;
  EXPECT_GT(stats.accepted, 0);
  EXPECT_LT(stats.accepted, stats.drafted);
}

TEST(Engine, CountsWhatHappened) {
  auto engine =
      load_engine({.model_path = tiny_model(kTinyModel), .draft_path = tiny_model(kTinyModel), .n_threads = 1});
  Request request = greedy_request(prompt_of(0, 10), 21);
  request.speculation.drafter = DrafterChoice::kModel;
  request.speculation.draft_length = "fixed:4";
  const RequestResult result = run_one(*engine, request);
  // 21 tokens: four rounds of 4 + 1, then the last token alone, for which no draft is of use.
  const SpeculationStats& stats = result.choices[0].stats.speculation;
  EXPECT_EQ(stats.rounds, 4);
  EXPECT_EQ(stats.drafted, 16);
  EXPECT_EQ(stats.accepted, 16);
  EXPECT_EQ(stats.draft_length_histogram[4], 4);
  EXPECT_EQ(stats.draft_length_histogram[0], 1);
  EXPECT_EQ(result.choices[0].origins[0], TokenOrigin::kAccepted);
  EXPECT_EQ(result.choices[0].origins[4], TokenOrigin::kBonus);
  EXPECT_EQ(result.choices[0].origins[20], TokenOrigin::kRegular);
  EXPECT_EQ(result.prompt.n_prompt_tokens, 10);
  EXPECT_GT(engine->stats().work.total_operations(), 0);
}

// All rules in one batch, with sampled, greedy, one-hot and no drafts. A seed and a fixed length fix a request's
// tokens, so each comes out as it does alone, where no other rule runs and no round is cut by a block of 64 rows of
// logits.
std::vector<Request> requests_of_all_rules() {
  std::vector<Request> requests = mixed_requests(true);
  for (size_t i = 0; i < 24; ++i) {
    Request request = greedy_request(prompt_of(static_cast<int>(i), 3 + static_cast<int>(i) * 5 % 30), 24);
    request.seed = 77 + i;
    request.sampling.temperature = i % 5 == 4 ? 0.0f : 0.6f + 0.2f * static_cast<float>(i % 4);
    if (i % 4 == 1) request.sampling.top_p = 0.9f;
    if (i % 4 == 2) request.sampling.repetition_penalty = 1.3f;
    const bool uses_ngrams = i % 6 == 5;  // of siblings too, whose progress depends on the batch: none here
    request.n = uses_ngrams ? 1 : 1 + static_cast<int>(i % 2);
    request.speculation.drafter = uses_ngrams ? DrafterChoice::kNgram : DrafterChoice::kModel;
    request.speculation.draft_length = i % 7 == 6 ? "off" : "fixed:" + std::to_string(1 + i * 5 % 9);
    constexpr VerifyRule kRules[] = {VerifyRule::kBlock, VerifyRule::kRejection, VerifyRule::kMatch,
                                     VerifyRule::kBlock};
    request.speculation.verify = kRules[i % 4];
    requests.push_back(request);
  }
  return requests;
}

TEST(Engine, AllRulesInOneBatchGiveWhatEachGivesAlone) {
  const std::vector<Request> requests = requests_of_all_rules();
  const auto engine_of = [](int max_batch, int n_threads) {
    return load_engine({.model_path = tiny_model(kTinyModel),
                        .draft_path = tiny_model("draft_padded"),
                        .max_batch = max_batch,
                        .n_threads = n_threads});
  };
  auto narrow = engine_of(1, 1);
  std::vector<RequestResult> alone;
  for (const Request& request : requests) alone.push_back(run_one(*narrow, request));
  for (const int n_threads : {1, 3}) {
    auto wide = engine_of(64, n_threads);
    expect_same_outputs(alone, run_all(*wide, requests));
    const SpeculationStats stats = wide->stats().speculation;
    EXPECT_GT(stats.accepted, stats.drafted / 20);
    EXPECT_LT(stats.accepted, stats.drafted * 19 / 20);
  }
}

// Drafts end where their confidence, and what that was worth so far, promise too little: seldom if it is the main
// model's own, nearly at once if it is a stranger's.
TEST(Engine, ADraftEndsByItsConfidence) {
  const TempFolder folder;
  const auto run = [](const std::string& draft, const char* draft_length) {
    auto engine = load_engine({.model_path = tiny_model(kTinyModel), .draft_path = draft, .n_threads = 2});
    Request request = greedy_request(prompt_of(2, 20), 60);
    request.sampling.temperature = 0.7f;
    request.n = 16;
    request.speculation = {
        .drafter = DrafterChoice::kModel, .draft_length = draft_length, .verify = VerifyRule::kRejection};
    run_one(*engine, request);
    return engine->stats().speculation;
  };
  const SpeculationStats equal = run(tiny_model(kTinyModel), "survival:min=0.3");
  EXPECT_GT(equal.drafted, 5 * equal.rounds);
  const std::string stranger = random_draft(0, folder);
  const SpeculationStats all = run(stranger, "fixed:8"), promising = run(stranger, "survival:min=0.3");
  EXPECT_GT(promising.drafted, 0);
  EXPECT_LT(promising.drafted, all.drafted / 3);
}

// The main model as its own draft: nearly everything is accepted, and the extra token comes behind it.
TEST(Engine, BlockVerificationOfAnEqualDraftAcceptsIt) {
  auto engine =
      load_engine({.model_path = tiny_model(kTinyModel), .draft_path = tiny_model(kTinyModel), .n_threads = 2});
  Request request = greedy_request(prompt_of(2, 20), 40);
  request.sampling.temperature = 1.0f;
  request.n = 8;
  request.speculation = {.drafter = DrafterChoice::kModel, .draft_length = "fixed:8", .verify = VerifyRule::kBlock};
  const RequestResult result = run_one(*engine, request);
  const SpeculationStats stats = engine->stats().speculation;
  EXPECT_GT(stats.accepted, stats.drafted * 9 / 10);
  EXPECT_EQ(result.choices[0].origins[0], TokenOrigin::kAccepted);
  for (const float logprob : result.choices[0].logprobs) EXPECT_TRUE(std::isfinite(logprob));
}

class SeededRule : public ::testing::TestWithParam<VerifyRule> {};
INSTANTIATE_TEST_SUITE_P(Rules, SeededRule, ::testing::Values(VerifyRule::kRejection, VerifyRule::kBlock),
                         [](const auto& test) { return test.param == VerifyRule::kBlock ? "Block" : "Rejection"; });

TEST_P(SeededRule, DoesNotDependOnOtherRequests) {
  Request request = greedy_request(prompt_of(1, 20), 40);
  request.sampling.temperature = 1.0f;
  request.seed = 9;
  request.speculation.verify = GetParam();
  request.speculation.draft_length = "bass";  // Algorithm 1: lengths follow what was accepted, not the clock
  request.speculation.drafter = DrafterChoice::kModel;
  EngineOptions options{
      .model_path = tiny_model(kTinyModel), .draft_path = tiny_model("draft_padded"), .max_batch = 8, .n_threads = 2};
  auto engine = load_engine(options);
  const RequestResult alone = run_one(*engine, request);
  std::vector<Request> together = mixed_requests(true);
  together.push_back(request);
  together.push_back(request);
  const std::vector<RequestResult> results = run_all(*engine, together);
  expect_same_outputs({alone, alone}, {results[results.size() - 2], results.back()});
}

TEST(Engine, CountersAreThereWhenTheLastEventIs) {
  auto engine = load_engine({.model_path = tiny_model(kTinyModel), .n_threads = 1});
  for (int i = 1; i <= 20; ++i) {
    run_one(*engine, greedy_request(prompt_of(i, 1), 2));
    EXPECT_EQ(engine->stats().decode_tokens, i) << "the step that feeds the prompt's last token is none of decoding";
  }
  engine->reset_stats();
  run_one(*engine, greedy_request(prompt_of(0, 30), 3));
  const EngineStats stats = engine->stats();
  EXPECT_EQ(stats.prefill_tokens, 29);
  EXPECT_EQ(stats.decode_tokens, 2);
  EXPECT_EQ(stats.decode_steps, 2);
  EXPECT_EQ(stats.steps, 4);
  EXPECT_LT(stats.decode_work.total_operations(), stats.work.total_operations());
}

// Else a step that ran meanwhile would bring the old sums back.
TEST(Engine, CountersThatWereSetBackStaySo) {
  auto engine = load_engine({.model_path = tiny_model(kTinyModel), .max_batch = 128, .n_threads = 1});
  auto events = std::make_shared<EventQueue>();
  Request request = greedy_request(prompt_of(0, 4), 240);
  request.n = 20'000;  // more than the loops below see the end of
  ASSERT_TRUE(engine->submit(request, events).ok());
  for (int i = 0; i < 60; ++i) {
    while (engine->stats().steps < 8) std::this_thread::yield();
    engine->reset_stats();
    for (int64_t n_steps = 0; n_steps < 3;) {
      const int64_t before = std::exchange(n_steps, engine->stats().steps);
      ASSERT_LE(before, n_steps);
    }
  }
}

TEST(Engine, AQueueWaitsAsLongAsItIsTold) {
  EventQueue events;
  Event event;
  EXPECT_FALSE(events.wait(&event, std::chrono::duration<double>(0)));
  EXPECT_FALSE(events.wait(&event, std::chrono::duration<double>(-1)));
  for (const double seconds : {1e9, 1e12, std::numeric_limits<double>::infinity()}) {
    std::thread later([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      events.push(Event{});
    });
    EXPECT_TRUE(events.wait(&event, std::chrono::duration<double>(seconds))) << seconds;
    later.join();
  }
}

TEST(Engine, RequestsThatDoNotFitNowWaitAndAllPagesComeBack) {
  // 1 MiB are 128 pages of 32 tokens, and a sequence needs 7: most of the 64 that the batch would take must wait.
  EngineOptions options{.model_path = tiny_model(kTinyModel), .max_batch = 64, .n_threads = 2, .kv_memory_mib = 1};
  auto engine = load_engine(options);
  std::vector<Request> requests;
  for (int i = 0; i < 20; ++i) {
    requests.push_back(greedy_request(prompt_of(i, 150), 60));
    requests.back().n = 4;
  }
  const std::vector<RequestResult> first = run_all(*engine, requests);
  const std::vector<RequestResult> second = run_all(*engine, requests);  // pages that leaked would be missing now
  expect_same_outputs(first, second);
  for (const RequestResult& result : first) {
    for (const ChoiceResult& choice : result.choices) EXPECT_EQ(choice.reason, FinishReason::kLength);
  }
}

int64_t resident_bytes() {
  int64_t n_pages = 0, n_resident = 0;
  std::ifstream("/proc/self/statm") >> n_pages >> n_resident;
  return n_resident * ::sysconf(_SC_PAGESIZE);
}

TEST(Engine, FindsTheMemoryOfCachesBeforeItIsWrittenTo) {
  if (!can_populate()) GTEST_SKIP() << "this system finds memory at its first touch only";
  std::vector<Request> requests(4, greedy_request(prompt_of(1, 20), 230));
  for (Request& request : requests) request.n = 100;
  requests.front().max_tokens = 1;  // the longest ones count
  for (const std::string& draft : {std::string(), tiny_model(kTinyModel)}) {
    auto engine =
        load_engine({.model_path = tiny_model(kTinyModel), .draft_path = draft, .max_batch = 250, .n_threads = 2});
    const int64_t n_caches = draft.empty() ? 1 : 2;
    const int64_t n_bytes = n_caches * 250 * 250 * engine->model_info().kv_bytes_per_token;
    ASSERT_GT(n_bytes, int64_t{16} << 20) << "else others' memory is as large";
    const int64_t before = resident_bytes();
    ASSERT_TRUE(engine->populate_kv(requests).ok());
    const int64_t grown = resident_bytes() - before;
    EXPECT_GT(grown, n_bytes * 8 / 10) << "400 samples were named, of which 250 run at once";
    EXPECT_LT(grown, n_bytes * 15 / 10);
    ASSERT_TRUE(engine->populate_kv(requests).ok());
    EXPECT_LT(resident_bytes() - before, n_bytes * 15 / 10) << "once is enough";
    EXPECT_EQ(engine->populate_kv(std::vector{greedy_request(prompt_of(1, 300), 5)}).code(),
              StatusCode::kInvalidArgument);
    EXPECT_EQ(engine->stats().steps, 0);
  }
}

TEST(Engine, EndsAtTheContextWithLength) {
  auto engine = load_engine({.model_path = tiny_model(kTinyModel), .n_threads = 1, .context_len = 64});
  const RequestResult result = run_one(*engine, greedy_request(prompt_of(0, 50), 1000));
  EXPECT_EQ(result.choices[0].tokens.size(), 14u);
  EXPECT_EQ(result.choices[0].reason, FinishReason::kLength);
}

TEST(Engine, CancellationEndsARequestAndNoOther) {
  auto engine = load_engine({.model_path = tiny_model(kTinyModel), .n_threads = 1});
  auto events = std::make_shared<EventQueue>();
  Request endless = greedy_request(prompt_of(0, 8), 240);
  endless.n = 200;
  const RequestId cancelled = engine->submit(endless, events).value();
  const RequestId kept = engine->submit(greedy_request(prompt_of(1, 8), 30), events).value();
  engine->cancel(cancelled);
  engine->cancel(12345);  // unknown: ignored
  RequestResult a, b;
  int n_done = 0;
  for (Event event; n_done < 2 && events->wait(&event, std::chrono::seconds(100)); event = {}) {
    n_done += collect(event, event.request_id == cancelled ? &a : &b) ? 1 : 0;
  }
  ASSERT_EQ(n_done, 2);
  ASSERT_FALSE(a.choices.empty() || b.choices.empty());
  EXPECT_EQ(a.choices.back().reason, FinishReason::kCancelled);
  EXPECT_EQ(b.choices[0].reason, FinishReason::kLength);
  EXPECT_EQ(b.choices[0].tokens.size(), 30u);
  (void)kept;
}

TEST(Engine, CancellationInTheMiddleLeavesTheOthersTokensAsTheyAre) {
  const Request kept = greedy_request(prompt_of(1, 30), 100);
  auto engine =
      load_engine({.model_path = tiny_model(kTinyModel), .draft_path = tiny_model("draft_padded"), .n_threads = 2});
  const RequestResult alone = run_one(*engine, kept);
  auto events = std::make_shared<EventQueue>();
  Request other = greedy_request(prompt_of(2, 30), 200);
  other.n = 6;
  const RequestId other_id = engine->submit(other, events).value();
  const RequestId kept_id = engine->submit(kept, events).value();
  RequestResult result;
  for (Event event; events->wait(&event, std::chrono::seconds(100)); event = {}) {
    if (event.request_id == kept_id && collect(event, &result)) break;
    if (result.choices.size() == 1 && result.choices[0].tokens.size() > 20) engine->cancel(other_id);
  }
  expect_same_outputs({alone}, {result});
}

TEST(Engine, ADeadlineReturnsWhatThereIs) {
  auto engine = load_engine({.model_path = tiny_model(kTinyModel), .max_batch = 4, .n_threads = 1});
  Request request = greedy_request(prompt_of(0, 20), 235);
  request.n = 5000;
  request.time_budget_s = 1.5;  // building the samples is in it
  const RequestResult result = run_one(*engine, request);
  EXPECT_TRUE(result.is_done);
  EXPECT_EQ(result.choices.size(), 5000u);
  EXPECT_EQ(result.choices.back().reason, FinishReason::kDeadline);
  EXPECT_FALSE(result.choices[0].tokens.empty());
}

// A step cannot be cut short, so a prompt's chunk is planned to end before the deadline; the first one ever is small.
TEST(Engine, ChunksOfAPromptEndBeforeADeadline) {
  EXPECT_EQ(tokens_before_deadline(1.0, 0.001, 256), 256);
  EXPECT_EQ(tokens_before_deadline(0.1, 0.001, 256), 100);
  EXPECT_EQ(tokens_before_deadline(0.0, 0.001, 256), 0);
  EXPECT_EQ(tokens_before_deadline(-1.0, 0.001, 256), 0);
  EXPECT_EQ(tokens_before_deadline(1e9, 0.0, 256), 0) << "what a row takes is unknown";
  auto engine = load_engine({.model_path = tiny_model(kTinyModel), .n_threads = 1});
  Request request = greedy_request(prompt_of(0, 200), 1);
  request.time_budget_s = 1000;
  const RequestResult first = run_one(*engine, request);
  EXPECT_EQ(engine->stats().steps, 3) << "32 tokens, 167 tokens, the last one";
  const RequestResult second = run_one(*engine, request);
  EXPECT_EQ(engine->stats().steps, 5) << "199 tokens, the last one";
  expect_same_outputs({first}, {second});
}

TEST(EngineLoad, RefusesADraftOfAnotherVocabularyAndTakesAPaddedOne) {
  const Result<std::unique_ptr<Engine>> other =
      Engine::load({.model_path = tiny_model(kTinyModel), .draft_path = tiny_model("draft_other_vocab")});
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.status().code(), StatusCode::kInvalidFile);
  EXPECT_THAT(other.status().message(), ::testing::HasSubstr("another vocabulary"));
  EXPECT_TRUE(Engine::load({.model_path = tiny_model(kTinyModel), .draft_path = tiny_model("draft_padded")}).ok());
  EXPECT_FALSE(Engine::load({.model_path = tiny_model("vocab_only")}).ok());
  EXPECT_FALSE(Engine::load({.model_path = tiny_model("missing")}).ok());
  EXPECT_FALSE(Engine::load({.model_path = tiny_model(kTinyModel), .device = "cuda"}).ok());
}

TEST(Engine, ManyThreadsMaySubmitAndCancelAtOnce) {
  auto engine = load_engine({.model_path = tiny_model(kTinyModel), .max_batch = 4, .n_threads = 2});
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&engine, i] {
      for (int round = 0; round < 5; ++round) {
        auto events = std::make_shared<EventQueue>();
        Request request = greedy_request(prompt_of(i, 10 + round), 10);
        request.n = 2;
        const Result<RequestId> id = engine->submit(request, events);
        ASSERT_TRUE(id.ok());
        if (round % 2 == 1) engine->cancel(id.value());
        RequestResult result;
        for (Event event; events->wait(&event, std::chrono::seconds(100)); event = {}) {
          if (collect(event, &result)) break;
        }
        EXPECT_TRUE(result.is_done);
        (void)engine->stats();
      }
    });
  }
  for (std::thread& client : clients) client.join();
}

TEST(Engine, DestructionWithRunningRequestsCancelsThem) {
  auto events = std::make_shared<EventQueue>();
  {
    auto engine = load_engine({.model_path = tiny_model(kTinyModel), .n_threads = 2});
    Request request = greedy_request(prompt_of(0, 10), 240);
    request.n = 500;
    ASSERT_TRUE(engine->submit(request, events).ok());
  }
  RequestResult result;
  for (Event event; events->wait(&event, std::chrono::seconds(1)); event = {}) collect(event, &result);
  ASSERT_TRUE(result.is_done);
  EXPECT_EQ(result.choices.back().reason, FinishReason::kCancelled);
}

}  // namespace
}  // namespace bass::testing
