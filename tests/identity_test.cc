// Greedy and seeded `match` on the default model are token-identical to regular decoding, whatever drafts: the model
// itself (everything is accepted), its first layers (some is), random weights (nearly nothing is), n-grams.
#include <gtest/gtest.h>

#include "support/engine_run.h"
#include "support/temp_folder.h"
#include "support/test_models.h"

namespace bass::testing {
namespace {

const char* const kPrompts[] = {
    "Write a Python function that returns the n-th Fibonacci number.\n\ndef fib(n):",
    "The three states of matter are",
    "red, green, blue, red, green, blue, red, green,",
    "Question: What is the capital of France?\nAnswer:",
};

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
  auto engine = load_engine(options);
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
                                           DraftCase{"ngram", 32, "bass", AttentionKind::kPad, 0.01, 1.0},
                                           DraftCase{"ngram", 1, "fixed:8", AttentionKind::kSplit, 0.01, 1.0}),
                         [](const auto& test) { return std::string(test.param.name) + std::to_string(test.index); });

}  // namespace
}  // namespace bass::testing
