// Every architecture on tiny random models against transformers in float32 (tests/goldens/make_architecture_models.py),
// and its exactness: alone, and in ragged speculative batches as main model and as draft, to the bit.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "model/architecture.h"
#include "support/engine_run.h"
#include "support/reference_decoder.h"

namespace bass::testing {
namespace {

constexpr int kContextLen = 128;

std::string model_file(const std::string& name) { return data_file("architectures/" + name); }

const nlohmann::json& goldens() {
  static const nlohmann::json models = [] {
    std::ifstream file(model_file("architecture_goldens.json"));
    EXPECT_TRUE(file.good());
    return nlohmann::json::parse(file)["models"];
  }();
  return models;
}

class ArchitectureTest : public ::testing::TestWithParam<size_t> {
 protected:
  static const nlohmann::json& golden() { return goldens()[GetParam()]; }
  static std::string path() { return model_file(golden()["file"]); }
  /// Another architecture's model, of the same vocabulary.
  static std::string other_path() { return model_file(goldens()[(GetParam() + 3) % goldens().size()]["file"]); }
};

TEST_P(ArchitectureTest, EqualsTransformersInFloat32) {
  Result<ModelFile> file = load_model_file(path());
  ASSERT_TRUE(file.ok()) << file.status().message();
  for (const auto& sequence : golden()["sequences"]) {
    const auto ids = sequence["ids"].get<std::vector<TokenId>>();
    const std::vector<std::vector<double>> rows = reference_logprobs(file.value(), ids);
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      ASSERT_NEAR(rows[i][static_cast<size_t>(ids[i + 1])], sequence["logprobs"][i].get<double>(), 1e-4)
          << "position " << i;
    }
    if (!sequence.contains("last_logprobs")) continue;
    const auto last = sequence["last_logprobs"].get<std::vector<double>>();
    ASSERT_EQ(last.size(), rows.back().size());
    for (size_t id = 0; id < last.size(); ++id) ASSERT_NEAR(rows.back()[id], last[id], 1e-4) << "token " << id;
  }
}

// Float weights: only the int16 attention differs from float32.
TEST_P(ArchitectureTest, EngineStaysNearTransformersAndContinuesAlike) {
  auto engine = load_engine({.model_path = path(), .n_threads = 2});
  ASSERT_NE(engine, nullptr);
  double sum = 0;
  int n = 0;
  for (const auto& sequence : golden()["sequences"]) {
    const RequestResult result = score(*engine, sequence["ids"].get<std::vector<TokenId>>());
    const auto expected = sequence["logprobs"].get<std::vector<double>>();
    ASSERT_EQ(result.prompt.prompt_logprobs.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i, ++n) {
      ASSERT_NEAR(result.prompt.prompt_logprobs[i], expected[i], 0.02) << "position " << i;
      sum += std::fabs(result.prompt.prompt_logprobs[i] - expected[i]);
    }
  }
  EXPECT_LE(sum / n, 0.002);
  const auto& greedy = golden()["greedy"];
  const auto ids = greedy["ids"].get<std::vector<TokenId>>();
  const Request request =
      greedy_request(greedy["prompt_ids"].get<std::vector<TokenId>>(), static_cast<int>(ids.size()));
  EXPECT_EQ(run_one(*engine, request).choices[0].tokens, ids);
}

// Prompts of several lengths, some sampled, some greedy, some with samples that share the prompt's chunks.
std::vector<Request> ragged_requests(DrafterChoice drafter) {
  std::vector<Request> requests;
  for (int i = 0; i < 4; ++i) {
    Request request;
    for (int k = 0; k < 9 + 23 * i; ++k) request.prompt_tokens.push_back(3 + (17 * k + 41 * i) % 285);
    request.n = 1 + i % 3;
    request.max_tokens = 40 - 7 * i;
    request.seed = 7 + static_cast<uint64_t>(i);
    request.sampling.temperature = i % 2 == 0 ? 0.0f : 0.7f;
    request.sampling.ignore_eos = true;
    request.speculation.drafter = drafter;
    request.speculation.draft_length = "fixed:4";
    requests.push_back(request);
  }
  return requests;
}

TEST_P(ArchitectureTest, SpeculationAndBatchesChangeNoBit) {
  struct Case {
    std::string draft;
    DrafterChoice drafter;
    int max_batch;
    int n_threads;
    AttentionKind attention;
    int max_step_tokens;
  };
  const auto run = [&](const Case& test) {
    EngineOptions options{.model_path = path(),
                          .draft_path = test.draft,
                          .max_batch = test.max_batch,
                          .n_threads = test.n_threads,
                          .context_len = kContextLen};
    options.attention = test.attention;
    options.max_step_tokens = test.max_step_tokens;
    auto engine = load_engine(options);
    if (engine == nullptr) return std::vector<RequestResult>{};
    auto results = run_all(*engine, ragged_requests(test.drafter));
    if (test.draft == path()) {
      EXPECT_GT(engine->stats().speculation.accepted, 50) << "its own drafts are accepted";
    }
    return results;
  };
  const auto alone = run({"", DrafterChoice::kOff, 1, 1, AttentionKind::kSplit, 256});
  ASSERT_FALSE(alone.empty());
  for (const Case& test : {Case{path(), DrafterChoice::kModel, 8, 2, AttentionKind::kFused, 256},
                           Case{other_path(), DrafterChoice::kModel, 3, 3, AttentionKind::kPad, 16},
                           Case{"", DrafterChoice::kNgram, 8, 5, AttentionKind::kFused, 40}}) {
    const auto actual = run(test);
    ASSERT_EQ(actual.size(), alone.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      ASSERT_EQ(actual[i].choices.size(), alone[i].choices.size());
      for (size_t k = 0; k < actual[i].choices.size(); ++k) {
        EXPECT_EQ(actual[i].choices[k].tokens, alone[i].choices[k].tokens) << "draft '" << test.draft << "' " << i;
        EXPECT_EQ(actual[i].choices[k].logprobs, alone[i].choices[k].logprobs) << "draft '" << test.draft << "' " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ArchitectureTest, ::testing::Range(size_t{0}, goldens().size()), [](const auto& test) {
  const std::string file = goldens()[test.param]["file"];
  return file.substr(0, file.find('.'));
});

TEST(Architectures, EachHasAGolden) {
  for (const Architecture* architecture : kArchitectures) {
    bool has_golden = false;
    for (const auto& golden : goldens()) {
      const GgufFile file = GgufFile::open(model_file(golden["file"])).value();
      has_golden |= file.get_string("general.architecture").value() == architecture->name;
    }
    EXPECT_TRUE(has_golden) << architecture->name;
  }
}

}  // namespace
}  // namespace bass::testing
