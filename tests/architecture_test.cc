// Every architecture on tiny random models against transformers in float32 (tests/goldens/make_architecture_models.py),
// and its exactness: alone, and in ragged speculative batches as main model and as draft, to the bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "model/architecture.h"
#include "support/engine_run.h"
#include "support/reference_decoder.h"
#include "support/temp_folder.h"
#include "support/test_models.h"

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

// Only the int16 attention differs from float32, and the int16 activations of quantised weights.
TEST_P(ArchitectureTest, EngineStaysNearTransformersAndContinuesAlike) {
  EngineOptions options{.model_path = path(), .n_threads = 2};
  options.activations = ActivationKind::kInt16;
  auto engine = load_engine(options);
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

TEST_P(ArchitectureTest, FaultyFilesEndInASentence) {
  const TempFolder folder;
  const std::string copy = folder / "faulty.gguf";
  const auto refusal = [&](const ModelEdit& edit) {
    write_edited_model(path(), edit, copy);
    const Result<ModelFile> file = load_model_file(copy);
    return file.ok() ? std::string() : file.status().message();
  };
  EXPECT_EQ(refusal({}), "") << "the copy itself is sound";
  const GgufFile file = GgufFile::open(path()).value();
  const std::string arch(file.get_string("general.architecture").value());
  const bool has_optional_biases = arch == "llama" || arch == "stablelm";
  for (const TensorInfo& tensor : file.tensors()) {
    const std::string name(tensor.name);
    if (name.starts_with("blk.") && !name.starts_with("blk.1.")) continue;  // one block is like another
    const bool is_optional = name == "output.weight" || name == "output.bias" || name == "rope_freqs.weight" ||
                             (has_optional_biases && name.ends_with(".bias"));
    const std::string missing = refusal({.without = name});
    if (!is_optional || !missing.empty()) {
      EXPECT_TRUE(missing.starts_with(copy + ": ")) << name << ": " << missing;
    }
    EXPECT_TRUE(refusal({.misshapen = name}).starts_with(copy + ": ")) << name;
  }
  const auto with = [&](const std::string& key, auto add) {
    const std::string message =
        refusal({.without = arch + "." + key, .add = [&](GgufBuilder& builder) { add(builder, arch + "." + key); }});
    EXPECT_TRUE(message.starts_with(copy + ": ")) << key << ": " << message;
  };
  const auto number = [&](const std::string& key, uint64_t value) {
    with(key, [value](GgufBuilder& builder, const std::string& name) { builder.add_u64(name, value); });
  };
  for (const char* key : {"block_count", "embedding_length", "feed_forward_length", "context_length",
                          "attention.head_count", "attention.head_count_kv"}) {
    if (file.has(arch + ".expert_" + key)) continue;  // which says it instead
    with(key, [](GgufBuilder& builder, const std::string& name) { builder.add_string(name, "7"); });
    for (const uint64_t value : {uint64_t{0}, uint64_t{1} << 31, uint64_t{1} << 40, ~uint64_t{0}}) number(key, value);
  }
  number("attention.head_count", 3);
  number("attention.head_count_kv", 3);
  number("attention.key_length", 24);
  number("attention.value_length", 0);
  number("attention.sliding_window", uint64_t{1} << 40);
  for (const float value : {NAN, INFINITY, 0.0f, -1.0f}) {
    for (const char* key : {"attention.layer_norm_epsilon", "attention.layer_norm_rms_epsilon"}) {
      if (!file.has(arch + "." + key)) continue;
      with(key, [value](GgufBuilder& builder, const std::string& name) { builder.add_f32(name, value); });
    }
  }
  EXPECT_NE(refusal({.add =
                         [](GgufBuilder& builder) {
                           builder.add_f32_tensor("blk.1.attn_sinks.weight", {4}, {1, 2, 3, 4});
                         }})
                .find("blk.1.attn_sinks.weight"),
            std::string::npos);
}

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
