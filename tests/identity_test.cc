// Greedy and seeded `match` on the default model are token-identical to regular decoding, whatever drafts: the model
// itself (everything is accepted), its first layers (some is), random weights (nearly nothing is), n-grams.
#include <gtest/gtest.h>

#include "support/engine_run.h"
#include "support/temp_folder.h"
#include "support/test_models.h"
#include "support/timed_executor.h"

namespace bass::testing {
namespace {

const char* const kPrompts[] = {
    "Write a Python function that returns the n-th Fibonacci number.\n\ndef fib(n):",
    "The three states of matter are",
    "red, green, blue, red, green, blue, red, green,",
    "Question: What is the capital of France?\nAnswer:",
};

// Seconds a step, for `goodput`: more than rows cost, also where something else runs.
constexpr double kWhereDraftsPay = 0.06;

std::vector<Request> requests_of(int n_requests) {
  std::vector<Request> requests;
  for (int i = 0; i < n_requests; ++i) {
    Request request;
    request.prompt = kPrompts[static_cast<size_t>(i) % std::size(kPrompts)];
    request.n = 1 + i % 2;
    request.max_tokens = 10 + i % 7 * 3;
    request.seed = 77 + static_cast<uint64_t>(i);
    request.sampling.temperature = i % 3 == 0 ? 0.0f : 0.8f;
    if (i % 3 == 2) request.sampling.top_p = 0.95f;
    requests.push_back(request);
  }
  return requests;
}

std::vector<RequestResult> run_regular(const std::vector<Request>& requests) {
  EngineOptions options{.model_path = default_model(), .max_batch = 8, .context_len = 512};
  auto engine = load_engine(options);
  std::vector<Request> regular = requests;
  for (Request& request : regular) request.speculation.drafter = DrafterChoice::kOff;
  return engine == nullptr ? std::vector<RequestResult>{} : run_all(*engine, regular);
}

struct DraftCase {
  const char* name;
  int max_batch;
  const char* draft_length;
  AttentionKind attention;
  double min_acceptance;
  double max_acceptance;

  friend std::ostream& operator<<(std::ostream& out, const DraftCase& test) {
    return out << test.draft_length << ", batch " << test.max_batch;
  }
};

class DefaultModelIdentity : public ::testing::TestWithParam<DraftCase> {
 protected:
  [[nodiscard]] std::string draft_path(const std::string& name) const {
    const std::string path = folder_ / "draft.gguf";
    if (name == "self") return default_model();
    if (name == "shipped") return shipped_draft();
    if (name == "truncated") write_truncated_model(default_model(), 20, path);
    if (name == "random") write_random_model(default_model(), 3, path);
    return name == "ngram" ? "" : path;
  }

  TempFolder folder_;
};

TEST_P(DefaultModelIdentity, TokensAndLogprobsEqualRegularDecoding) {
  const DraftCase& test = GetParam();
  EngineOptions options{.model_path = default_model(),
                        .draft_path = draft_path(test.name),
                        .max_batch = test.max_batch,
                        .context_len = 512};
  options.attention = test.attention;
  const Pace pace = constant_pace(std::string_view(test.draft_length) == "goodput" ? kWhereDraftsPay : 0);
  auto engine = load_timed_engine(options, &pace);
  ASSERT_NE(engine, nullptr);
  std::vector<Request> requests = requests_of(test.max_batch == 1 ? 3 : 10);
  // Accepted tokens behind an end token are not emitted and not counted: without end tokens all are.
  if (test.min_acceptance == 1.0) {
    for (Request& request : requests) request.sampling.ignore_eos = true;
  }
  const std::vector<RequestResult> expected = run_regular(requests);
  for (Request& request : requests) {
    request.speculation.draft_length = test.draft_length;
    if (!options.draft_path.empty()) request.speculation.drafter = DrafterChoice::kModel;
  }
  const std::vector<RequestResult> actual = run_all(*engine, requests);
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_EQ(actual[i].choices.size(), expected[i].choices.size());
    for (size_t k = 0; k < actual[i].choices.size(); ++k) {
      EXPECT_EQ(actual[i].choices[k].tokens, expected[i].choices[k].tokens) << requests[i].prompt;
      EXPECT_EQ(actual[i].choices[k].logprobs, expected[i].choices[k].logprobs);
      EXPECT_EQ(actual[i].choices[k].text, expected[i].choices[k].text);
    }
  }
  const SpeculationStats stats = engine->stats().speculation;
  ASSERT_GT(stats.drafted, 0);
  const double acceptance = static_cast<double>(stats.accepted) / static_cast<double>(stats.drafted);
  std::printf("acceptance %.3f of %ld drafted\n", acceptance, static_cast<long>(stats.drafted));
  EXPECT_GE(acceptance, test.min_acceptance);
  EXPECT_LE(acceptance, test.max_acceptance);
}

INSTANTIATE_TEST_SUITE_P(Drafts, DefaultModelIdentity,
                         ::testing::Values(DraftCase{"self", 4, "bass", AttentionKind::kFused, 1.0, 1.0},
                                           DraftCase{"truncated", 32, "fixed:3", AttentionKind::kPad, 0.0, 0.999},
                                           DraftCase{"truncated", 1, "bass", AttentionKind::kFused, 0.0, 0.999},
                                           DraftCase{"random", 8, "bass", AttentionKind::kFused, 0.0, 0.1},
                                           DraftCase{"shipped", 8, "goodput", AttentionKind::kFused, 0.05, 0.999},
                                           DraftCase{"shipped", 32, "survival:min=0.1", AttentionKind::kPad, 0.05,
                                                     0.999},
                                           DraftCase{"ngram", 32, "bass", AttentionKind::kPad, 0.01, 1.0},
                                           DraftCase{"ngram", 1, "fixed:8", AttentionKind::kSplit, 0.01, 1.0}),
                         [](const auto& test) { return std::string(test.param.name) + std::to_string(test.index); });

// --- compositions that change while the policies are at work

struct Arrival {
  Request request;
  int after_tokens = 0;  // of all requests together
  bool is_cancelled = false;
};

const char* const kMixedPrompts[] = {
    "Translate to French: The train to Lyon leaves at nine, and the train to Nice at ten.",
    "def quick_sort(items):\n    if len(items) < 2:\n        return items\n",
    "1, 2, 4, 8, 16, 32, 64, 1, 2, 4, 8, 16, 32, 64, 1, 2, 4,",
    "Dear Mrs Hoffmann,\n\nthank you for your letter of 3 May, in which you ask why the bridge was closed.",
    "Once",
    "The recipe needs flour, sugar, butter and eggs. First mix flour, sugar, butter and eggs. Then",
};

// Ragged prompts and outputs, forks, all drafters and policies beside each other, greedy and seeded.
std::vector<Arrival> mixed_arrivals() {
  constexpr DrafterChoice kDrafters[] = {DrafterChoice::kAuto, DrafterChoice::kModel, DrafterChoice::kNgram,
                                         DrafterChoice::kAuto, DrafterChoice::kOff};
  constexpr const char* kLengths[] = {"goodput", "survival:min=0.1", "goodput", "bass", "fixed:6", "survival:min=0.6"};
  std::vector<Arrival> arrivals;
  for (int i = 0; i < 12; ++i) {
    Arrival arrival;
    Request& request = arrival.request;
    request.prompt = kMixedPrompts[static_cast<size_t>(i) % std::size(kMixedPrompts)];
    for (int k = 0; k < i % 4 * 3; ++k) request.prompt += " And again: the same words come back, and then others.";
    request.n = 1 + i % 3;
    request.max_tokens = 12 + i * 13 % 40;
    request.seed = 500 + static_cast<uint64_t>(i);
    request.sampling.temperature = i % 2 == 0 ? 0.0f : 0.7f;
    if (i % 4 == 1) request.min_tokens = 6 + i;
    request.sampling.ignore_eos = i % 3 == 0 || i == 8;  // the longest of `goodput` that is not cancelled
    if (i % 5 == 1) request.sampling.repetition_penalty = 1.1f;
    request.speculation = {kDrafters[i % 5], kLengths[i % 6], VerifyRule::kMatch};
    arrival.after_tokens = i < 4 ? 0 : 25 * (i - 3);
    arrival.is_cancelled = i % 4 == 2;
    if (arrival.is_cancelled) request.max_tokens = 150;
    arrivals.push_back(arrival);
  }
  return arrivals;
}

// Requests are submitted when so many tokens have come, and some are cancelled once they have 8 of their own.
std::vector<RequestResult> run_arrivals(Engine& engine, const std::vector<Arrival>& arrivals) {
  auto events = std::make_shared<EventQueue>();
  std::vector<RequestResult> results(arrivals.size());
  std::map<RequestId, size_t> idx_of_id;
  std::vector<int> n_tokens(arrivals.size());
  int n_all = 0;
  size_t n_done = 0;
  const auto submit_due = [&](bool is_idle) {
    for (size_t i = idx_of_id.size(); i < arrivals.size() && (is_idle || arrivals[i].after_tokens <= n_all); ++i) {
      idx_of_id[engine.submit(arrivals[i].request, events).value()] = i;
      is_idle = false;
    }
  };
  submit_due(false);
  while (n_done < arrivals.size()) {
    Event event;
    if (!events->wait(&event, std::chrono::seconds(300))) break;
    const RequestId id = event.request_id;
    const size_t i = idx_of_id.at(id);
    n_all += static_cast<int>(event.tokens.size());
    n_tokens[i] += static_cast<int>(event.tokens.size());
    n_done += collect(std::move(event), &results[i]) ? 1 : 0;
    if (arrivals[i].is_cancelled && n_tokens[i] >= 8) engine.cancel(id);
    submit_due(n_done == idx_of_id.size());
  }
  EXPECT_EQ(n_done, arrivals.size()) << "requests that never ended";
  return results;
}

// Whether the choices are regular decoding's: all of a choice, or as much as a cancelled one had.
int count_differing(const std::vector<Arrival>& arrivals, const std::vector<RequestResult>& actual,
                    const std::vector<RequestResult>& expected) {
  int n_differing = 0;
  for (size_t i = 0; i < arrivals.size(); ++i) {
    for (size_t k = 0; k < actual[i].choices.size(); ++k) {
      ChoiceResult regular = expected[i].choices.at(k);
      const ChoiceResult& choice = actual[i].choices[k];
      if (arrivals[i].is_cancelled && choice.tokens.size() < regular.tokens.size()) {
        regular.tokens.resize(choice.tokens.size());
        regular.logprobs.resize(choice.tokens.size());
      }
      n_differing += choice.tokens != regular.tokens || choice.logprobs != regular.logprobs ? 1 : 0;
    }
  }
  return n_differing;
}

int64_t drafted_under(std::string_view policy, const std::vector<Arrival>& arrivals,
                      const std::vector<RequestResult>& results) {
  int64_t n_drafted = 0;
  for (size_t i = 0; i < arrivals.size(); ++i) {
    if (arrivals[i].request.speculation.draft_length != policy) continue;
    for (const ChoiceResult& choice : results[i].choices) n_drafted += choice.stats.speculation.drafted;
  }
  return n_drafted;
}

TEST(DefaultModelComposition, AdmissionsForksAndCancellationsLeaveRegularDecodingsTokens) {
  const std::vector<Arrival> arrivals = mixed_arrivals();
  std::vector<Request> requests;
  for (const Arrival& arrival : arrivals) requests.push_back(arrival.request);
  const std::vector<RequestResult> expected = run_regular(requests);
  ASSERT_EQ(expected.size(), arrivals.size());
  EngineOptions options{
      .model_path = default_model(), .draft_path = shipped_draft(), .max_batch = 9, .context_len = 512};
  options.max_step_tokens = 40;  // prompts are cut into chunks beside running sequences
  const Pace pace = constant_pace(kWhereDraftsPay);
  for (const AttentionKind attention : {AttentionKind::kFused, AttentionKind::kPad}) {
    options.attention = attention;
    auto engine = load_timed_engine(options, &pace);
    ASSERT_NE(engine, nullptr);
    const std::vector<RequestResult> actual = run_arrivals(*engine, arrivals);
    EXPECT_EQ(count_differing(arrivals, actual, expected), 0);
    const SpeculationStats stats = engine->stats().speculation;
    std::printf("acceptance %.3f of %ld drafted\n",
                1.0 * static_cast<double>(stats.accepted) / static_cast<double>(stats.drafted),
                static_cast<long>(stats.drafted));
    EXPECT_GT(stats.accepted, 50);
    const int64_t n_drafted = drafted_under("goodput", arrivals, actual);
    std::printf("%ld drafted under goodput\n", static_cast<long>(n_drafted));
    EXPECT_GT(n_drafted, 30);
    EXPECT_GT(stats.drafted - stats.accepted, 50);
    int n_cut = 0;
    for (size_t i = 0; i < arrivals.size(); ++i) {
      for (const ChoiceResult& choice : actual[i].choices) n_cut += choice.reason == FinishReason::kCancelled ? 1 : 0;
    }
    EXPECT_GE(n_cut, 3) << "nothing was cancelled in the middle";
  }
}

// Negative control: where tokens are drawn by another rule, or with another seed, most sampled choices differ.
TEST(DefaultModelComposition, AnotherRuleOrSeedIsFound) {
  std::vector<Arrival> arrivals = mixed_arrivals();
  arrivals.resize(6);
  std::vector<Request> requests;
  for (const Arrival& arrival : arrivals) requests.push_back(arrival.request);
  const std::vector<RequestResult> expected = run_regular(requests);
  EngineOptions options{
      .model_path = default_model(), .draft_path = shipped_draft(), .max_batch = 9, .context_len = 512};
  auto engine = load_engine(options);
  ASSERT_NE(engine, nullptr);
  for (Arrival& arrival : arrivals) arrival.request.speculation.verify = VerifyRule::kBlock;
  EXPECT_GE(count_differing(arrivals, run_arrivals(*engine, arrivals), expected), 2);
  for (Arrival& arrival : arrivals) {
    arrival.request.speculation.verify = VerifyRule::kMatch;
    *arrival.request.seed += 1000;
  }
  EXPECT_GE(count_differing(arrivals, run_arrivals(*engine, arrivals), expected), 3);
}

}  // namespace
}  // namespace bass::testing
