// Every architecture on tiny random models against transformers in float32: GGUF files
// (tests/goldens/make_architecture_models.py) and checkpoints (make_checkpoint_goldens.py, which have more shapes),
// those also when they were converted. And its exactness: alone, and in ragged speculative batches as main model and as
// draft, to the bit.
//
// Which arithmetic is compared: the reference decoder computes in float32 with what the engine's loader found in the
// files, so that 1e-4 is asked of names, layouts, properties and weights. The engine's attention is int16 on any
// weights, and its activations are int16 where weights are quantised; what that costs (0.012 at most here) is bounded.
// It chooses the same tokens where the likeliest leads by 0.02 or more, and no golden continuation has a closer choice.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "model/architecture.h"
#include "model/model_source.h"
#include "support/checkpoint_files.h"
#include "support/engine_run.h"
#include "support/reference_decoder.h"
#include "support/temp_folder.h"

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

struct TestModel {
  bool is_checkpoint = false;
  size_t idx = 0;  // of its golden

  [[nodiscard]] const nlohmann::json& list() const { return is_checkpoint ? checkpoint_goldens() : goldens(); }
  [[nodiscard]] const nlohmann::json& golden() const { return list()[idx]; }
  /// Of another architecture, with the same vocabulary.
  [[nodiscard]] TestModel other() const { return {is_checkpoint, (idx + 3) % list().size()}; }
  [[nodiscard]] std::string name() const {
    const std::string name = golden()[is_checkpoint ? "name" : "file"];
    return name.substr(0, name.find('.'));
  }
};

class ArchitectureTest : public ::testing::TestWithParam<TestModel> {
 protected:
  static const nlohmann::json& golden() { return GetParam().golden(); }
  [[nodiscard]] std::string path() const { return path_of(GetParam()); }
  [[nodiscard]] std::string other_path() const { return path_of(GetParam().other()); }
  /// A GGUF file of the model, made from its checkpoint if it is one.
  [[nodiscard]] std::string gguf_path() const {
    if (!GetParam().is_checkpoint) return path();
    ThreadTeam team(2);
    std::string file = folder_ / "converted.gguf";
    std::ofstream out(file, std::ios::binary);
    const Status status =
        write_gguf(open_model_source(path()).value(), &team, [&out](std::span<const std::byte> bytes) {
          out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
          return ok_status();
        });
    EXPECT_TRUE(status.ok()) << status.message();
    return file;
  }

 private:
  [[nodiscard]] std::string path_of(const TestModel& model) const {
    if (!model.is_checkpoint) return model_file(model.golden()["file"]);
    std::string directory = folder_ / model.name();
    if (std::filesystem::create_directory(directory)) write_checkpoint(model.golden(), directory);
    return directory;
  }

  TempFolder folder_;
};

std::vector<TestModel> all_models(bool is_checkpoint) {
  std::vector<TestModel> models;
  const size_t n = TestModel{is_checkpoint}.list().size();
  for (size_t i = 0; i < n; ++i) models.push_back({is_checkpoint, i});
  return models;
}

TEST_P(ArchitectureTest, EqualsTransformersInFloat32) {
  Result<ModelFile> file = load_model_file(path());
  ASSERT_TRUE(file.ok()) << file.status().message();
  double largest = 0;
  const auto expect_near = [&](double actual, double expected, const char* what, size_t i) {
    ASSERT_NEAR(actual, expected, 1e-4) << what << " " << i;
    largest = std::max(largest, std::fabs(actual - expected));
  };
  const auto check = [&](const nlohmann::json& sequence) {
    const auto ids = sequence["ids"].get<std::vector<TokenId>>();
    const std::vector<std::vector<double>> rows = reference_logprobs(file.value(), ids);
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      expect_near(rows[i][static_cast<size_t>(ids[i + 1])], sequence["logprobs"][i], "position", i);
    }
    if (!sequence.contains("last_logprobs")) return;
    const auto last = sequence["last_logprobs"].get<std::vector<double>>();
    ASSERT_EQ(last.size(), rows.back().size());
    for (size_t id = 0; id < last.size(); ++id) expect_near(rows.back()[id], last[id], "token", id);
  };
  for (const auto& sequence : golden()["sequences"]) check(sequence);
  if (golden().contains("short_text")) check(golden()["short_text"]);
  RecordProperty("largest_difference", std::to_string(largest));
}

Request golden_continuation(const nlohmann::json& golden) {
  const auto& greedy = golden["greedy"];
  return greedy_request(greedy["prompt_ids"].get<std::vector<TokenId>>(), static_cast<int>(greedy["ids"].size()));
}

TEST_P(ArchitectureTest, EngineStaysNearTransformersAndContinuesAlike) {
  EngineOptions options{.model_path = path(), .n_threads = 2};
  options.activations = ActivationKind::kInt16;
  auto engine = load_engine(options);
  ASSERT_NE(engine, nullptr);
  double sum = 0, largest = 0;
  int n = 0;
  const auto check = [&](const nlohmann::json& sequence) {
    const RequestResult result = score(*engine, sequence["ids"].get<std::vector<TokenId>>());
    const auto expected = sequence["logprobs"].get<std::vector<double>>();
    ASSERT_EQ(result.prompt.prompt_logprobs.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i, ++n) {
      ASSERT_NEAR(result.prompt.prompt_logprobs[i], expected[i], 0.02) << "position " << i;
      sum += std::fabs(result.prompt.prompt_logprobs[i] - expected[i]);
      largest = std::max(largest, std::fabs(result.prompt.prompt_logprobs[i] - expected[i]));
    }
  };
  for (const auto& sequence : golden()["sequences"]) check(sequence);
  if (golden().contains("short_text")) check(golden()["short_text"]);
  EXPECT_LE(sum / n, 0.002);
  RecordProperty("largest_difference", std::to_string(largest));
  EXPECT_EQ(run_one(*engine, golden_continuation(golden())).choices[0].tokens,
            golden()["greedy"]["ids"].get<std::vector<TokenId>>());
}

/// Over every architecture, and every shape of one once.
class ArchitectureBatchTest : public ArchitectureTest {};

// Prompts of several lengths, some sampled, some greedy, some with samples that share the prompt's chunks; the first is
// that of the golden continuation, the last so short that longrope turns otherwise.
std::vector<Request> ragged_requests(const nlohmann::json& golden, DrafterChoice drafter) {
  std::vector<Request> requests{golden_continuation(golden)};
  for (int i = 0; i < 4; ++i) {
    Request request;
    for (int k = 0; k < 9 + 23 * i; ++k) request.prompt_tokens.push_back(3 + (17 * k + 41 * i) % 285);
    request.n = 1 + i % 3;
    request.max_tokens = 24 - 4 * i;
    request.seed = 7 + static_cast<uint64_t>(i);
    request.sampling.temperature = i % 2 == 0 ? 0.0f : 0.7f;
    request.sampling.ignore_eos = true;
    requests.push_back(request);
  }
  requests.push_back(greedy_request({30, 40, 50, 60}, 12));
  for (Request& request : requests) {
    request.speculation.drafter = drafter;
    request.speculation.draft_length = "fixed:4";
  }
  return requests;
}

TEST_P(ArchitectureBatchTest, SpeculationAndBatchesChangeNoBit) {
  struct Case {
    std::string model, draft;
    DrafterChoice drafter;
    int max_batch;
    int n_threads;
    AttentionKind attention;
    int max_step_tokens;
  };
  const auto run = [&](const Case& test) {
    EngineOptions options{.model_path = test.model,
                          .draft_path = test.draft,
                          .max_batch = test.max_batch,
                          .n_threads = test.n_threads,
                          .context_len = kContextLen};
    options.activations = ActivationKind::kInt16;
    options.attention = test.attention;
    options.max_step_tokens = test.max_step_tokens;
    auto engine = load_engine(options);
    if (engine == nullptr) return std::vector<RequestResult>{};
    auto results = run_all(*engine, ragged_requests(golden(), test.drafter));
    if (test.draft == test.model) {
      EXPECT_GT(engine->stats().speculation.accepted, 50) << "its own drafts are accepted";
    }
    return results;
  };
  const auto alone = run({path(), "", DrafterChoice::kOff, 1, 1, AttentionKind::kSplit, 256});
  ASSERT_FALSE(alone.empty());
  EXPECT_EQ(alone[0].choices[0].tokens, golden()["greedy"]["ids"].get<std::vector<TokenId>>());
  const std::string gguf = gguf_path();
  for (const Case& test : {Case{path(), path(), DrafterChoice::kModel, 8, 2, AttentionKind::kFused, 256},
                           Case{path(), other_path(), DrafterChoice::kModel, 3, 2, AttentionKind::kPad, 16},
                           Case{gguf, "", DrafterChoice::kNgram, 8, 3, AttentionKind::kFused, 40}}) {
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

/// Checkpoints of shapes that no GGUF file here has.
std::vector<TestModel> models_of_more_shapes() {
  std::vector<TestModel> models = all_models(true);
  std::erase_if(models, [](const TestModel& model) {
    return std::ranges::any_of(all_models(false), [&](const TestModel& file) { return file.name() == model.name(); });
  });
  return models;
}

constexpr auto kNameOf = [](const auto& test) { return test.param.name(); };
INSTANTIATE_TEST_SUITE_P(Gguf, ArchitectureTest, ::testing::ValuesIn(all_models(false)), kNameOf);
INSTANTIATE_TEST_SUITE_P(Checkpoint, ArchitectureTest, ::testing::ValuesIn(all_models(true)), kNameOf);
INSTANTIATE_TEST_SUITE_P(Gguf, ArchitectureBatchTest, ::testing::ValuesIn(all_models(false)), kNameOf);
INSTANTIATE_TEST_SUITE_P(Checkpoint, ArchitectureBatchTest, ::testing::ValuesIn(models_of_more_shapes()), kNameOf);

// Negative control: what an architecture has shows in its goldens.
TEST(ArchitectureControl, EveryPropertyMatters) {
  struct Case {
    const char* file;
    const char* property;
    void (*change)(ModelFile& model);
  };
  const Case cases[] = {
      {"llama_rope_factors", "factors", [](ModelFile& model) { model.config.ropes[0].factors.clear(); }},
      {"llama_linear_biases", "factor", [](ModelFile& model) { model.config.ropes[0].factor = 1; }},
      {"llama_window", "window", [](ModelFile& model) { model.config.layers[1].window = 0; }},
      {"smollm3", "no rope", [](ModelFile& model) { model.config.layers[3].rope = 0; }},
      {"qwen2_yarn", "magnitude", [](ModelFile& model) { model.config.ropes[0].magnitude = 1; }},
      {"qwen2_gqa_tied", "bias", [](ModelFile& model) { model.weights.layers[1].k.bias.assign(32, 0.0f); }},
      {"qwen2_gqa_tied", "order",
       [](ModelFile& model) { model.weights.layers[1].k.order = model.weights.layers[1].q.order = {}; }},
      {"qwen3", "norm of q", [](ModelFile& model) { model.weights.layers[1].q_norm.clear(); }},
      {"gemma", "embedding scale", [](ModelFile& model) { model.config.embedding_scale = 1; }},
      {"gemma2", "scale", [](ModelFile& model) { model.config.attention_scale = 0; }},
      {"gemma2", "cap of scores", [](ModelFile& model) { model.config.attention_cap = 0; }},
      {"gemma2", "cap of logits", [](ModelFile& model) { model.config.logit_cap = 0; }},
      {"gemma2", "norms behind blocks", [](ModelFile& model) { model.config.has_post_norms = false; }},
      {"gemma3_q8_0", "local rope", [](ModelFile& model) { model.config.layers[0].rope = 0; }},
      {"mixtral_q8_0", "weights of experts", [](ModelFile& model) { model.config.expert_weights_sum_to_one = false; }},
      {"phi3_longrope", "long factors", [](ModelFile& model) { model.config.ropes[0].long_rope = 0; }},
      {"gpt2", "positions", [](ModelFile& model) { model.config.has_learned_positions = false; }},
      {"gptneox_parallel", "order", [](ModelFile& model) { model.config.block_order = BlockOrder::kSequential; }},
      {"gptneox_parallel", "exact GELU", [](ModelFile& model) { model.config.activation = Activation::kGeluTanh; }},
      {"olmoe", "weights of experts", [](ModelFile& model) { model.config.expert_weights_sum_to_one = true; }},
  };
  for (const Case& test : cases) {
    ModelFile model = load_model_file(model_file(std::string(test.file) + ".gguf")).value();
    test.change(model);
    const auto is_case = [&](const auto& golden) { return golden["file"] == std::string(test.file) + ".gguf"; };
    const auto& sequence = (*std::find_if(goldens().begin(), goldens().end(), is_case))["sequences"][0];
    const auto ids = sequence["ids"].get<std::vector<TokenId>>();
    const std::vector<std::vector<double>> rows = reference_logprobs(model, ids);
    double difference = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      difference = std::max(
          difference, std::fabs(rows[i][static_cast<size_t>(ids[i + 1])] - sequence["logprobs"][i].get<double>()));
    }
    EXPECT_GT(difference, 5e-4) << test.file << ": " << test.property;
  }
}

TEST(Architectures, EachHasAGolden) {
  for (const Architecture* architecture : kArchitectures) {
    if (architecture == &kBassDraftArchitecture) continue;  // no model by itself: draft_golden_test.cc
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
