// Hugging Face checkpoints of every architecture: configurations and tensors as transformers saves them must become the
// GGUF file that tests/goldens/architecture_mapping.py makes of them (and architecture_test.cc computes with).
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "model/architecture.h"
#include "model/model_source.h"
#include "support/byte_vocab.h"
#include "support/checkpoint_files.h"
#include "support/temp_folder.h"

namespace bass {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using testing::checkpoint_goldens;
using testing::fnv1a;
using ::testing::HasSubstr;
using testing::safetensors_bytes;

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class CheckpointTest : public ::testing::Test {
 protected:
  const json& golden(const std::string& name) const {
    for (const json& model : checkpoint_goldens()) {
      if (model["name"] == name) return model;
    }
    ADD_FAILURE() << name;
    return checkpoint_goldens();
  }

  /// Tensors in two shards, so that both ways of storing are read.
  void write(const json& model) const {
    std::ofstream(directory_ + "/config.json") << model["config"];
    json weight_map = json::object();
    std::vector<size_t> tensor_idxs[2];
    for (size_t i = 0; i < model["tensors"].size(); ++i) {
      tensor_idxs[i % 2].push_back(i);
      weight_map[model["tensors"][i][0].get<std::string>()] = i % 2 == 0 ? "a.safetensors" : "b.safetensors";
    }
    for (const size_t k : {0, 1}) {
      std::ofstream(directory_ + (k == 0 ? "/a.safetensors" : "/b.safetensors"), std::ios::binary)
          << safetensors_bytes(model, tensor_idxs[k]);
    }
    std::ofstream(directory_ + "/model.safetensors.index.json") << json{{"weight_map", weight_map}};
  }

  Result<GgufFile> open(std::optional<DType> quantise = std::nullopt, int n_threads = 2) const {
    const VocabData vocab = testing::make_byte_vocab({}, {});
    Result<ModelSource> source = open_checkpoint(directory_, &vocab);
    if (!source.ok()) return source.status();
    if (quantise.has_value()) quantise_recipes(*quantise, source->recipes);
    ThreadTeam team(n_threads);
    return make_gguf(std::move(source).value(), &team);
  }

  testing::TempFolder folder_;
  std::string directory_ = folder_.path();
};

void expect_metadata(const GgufFile& gguf, const std::string& key, const json& expected) {
  if (expected.is_boolean()) {
    EXPECT_EQ(gguf.get_bool_or(key, !expected.get<bool>()).value(), expected.get<bool>()) << key;
  } else if (expected.is_string()) {
    EXPECT_EQ(gguf.get_string(key).value(), expected.get<std::string>()) << key;
  } else if (expected.is_array()) {
    EXPECT_EQ(gguf.get_int_array(key).value(), expected.get<std::vector<int64_t>>()) << key;
  } else if (expected.is_number_float()) {
    EXPECT_FLOAT_EQ(gguf.get_f32(key).value(), expected.get<float>()) << key;
  } else {
    EXPECT_EQ(gguf.get_u32(key).value(), expected.get<uint32_t>()) << key;
  }
}

TEST_F(CheckpointTest, BecomesTheGgufFileOfTheModel) {
  for (const json& model : checkpoint_goldens()) {
    SCOPED_TRACE(model["name"].get<std::string>());
    write(model);
    const Result<GgufFile> gguf = open();
    ASSERT_TRUE(gguf.ok()) << gguf.status().message();
    EXPECT_EQ(gguf->get_string("general.architecture").value(), model["architecture"].get<std::string>());
    for (const auto& [key, value] : model["metadata"].items()) {
      ASSERT_TRUE(gguf->has(model["architecture"].get<std::string>() + key.substr(key.find('.')))) << key;
      expect_metadata(gguf.value(), key, value);
    }
    EXPECT_EQ(gguf->tensors().size(), model["converted"].size());
    for (const json& expected : model["converted"]) {
      const TensorInfo* tensor = gguf->find_tensor(expected[0].get<std::string>());
      ASSERT_NE(tensor, nullptr) << expected[0];
      EXPECT_EQ(tensor->shape, expected[1].get<std::vector<int64_t>>()) << expected[0];
      if (expected[2].is_string()) {
        EXPECT_EQ(fnv1a(text_of(tensor->data)), expected[2].get<std::string>()) << expected[0];
      } else {
        for (size_t i = 0; i < expected[2].size(); ++i) {
          EXPECT_FLOAT_EQ(reinterpret_cast<const float*>(tensor->data.data())[i], expected[2][i].get<float>());
        }
      }
    }
    // The architecture finds all that it needs.
    const Architecture* architecture = find_architecture(gguf.value()).value();
    const Result<ModelConfig> config = architecture->read_config(gguf.value());
    EXPECT_TRUE(config.ok()) << config.status().message();
  }
}

// What the import is tried on are the bytes that transformers wrote.
TEST_F(CheckpointTest, FilesAreThoseOfTransformers) {
  for (const json& model : checkpoint_goldens()) {
    testing::write_checkpoint(model, directory_);
    std::ifstream file(directory_ + "/model.safetensors", std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    EXPECT_EQ(fnv1a(bytes), model["file_hash"].get<std::string>()) << model["name"];
  }
}

TEST_F(CheckpointTest, EveryArchitectureHasAGolden) {
  for (const Architecture* architecture : kArchitectures) {
    if (architecture->hf.import == nullptr) continue;  // no checkpoints have it
    bool has_golden = false;
    for (const json& model : checkpoint_goldens())
      has_golden |= model["architecture"] == std::string(architecture->name);
    EXPECT_TRUE(has_golden) << architecture->name;
  }
}

TEST_F(CheckpointTest, QuantisesMatricesTheSameWithAnyThreads) {
  write(golden("olmoe"));
  const GgufFile one = open(DType::kQ8_0, 1).value();
  const GgufFile three = open(DType::kQ8_0, 3).value();
  for (const TensorInfo& tensor : one.tensors()) {
    const bool is_kept = tensor.shape.size() == 1 || tensor.name.find("ffn_gate_inp") != std::string::npos ||
                         tensor.shape.front() % 32 != 0;
    EXPECT_EQ(tensor.type == DType::kQ8_0, !is_kept) << tensor.name;
    const TensorInfo* other = three.find_tensor(tensor.name);
    ASSERT_EQ(other->data.size(), tensor.data.size());
    EXPECT_EQ(std::memcmp(other->data.data(), tensor.data.data(), tensor.data.size()), 0) << tensor.name;
  }
}

TEST_F(CheckpointTest, WrittenAsOneFileItIsTheSameModel) {
  write(golden("codegen"));
  const GgufFile made = open().value();
  const VocabData vocab = testing::make_byte_vocab({}, {});
  const ModelSource source = open_checkpoint(directory_, &vocab).value();
  ThreadTeam team(2);
  std::string bytes;
  ASSERT_TRUE(write_gguf(source, &team, [&](std::span<const std::byte> piece) {
                bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
                return ok_status();
              }).ok());
  EXPECT_EQ(static_cast<int64_t>(bytes.size()), gguf_bytes(source));
  const GgufContents written =
      parse_gguf({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()}, "x.gguf").value();
  ASSERT_EQ(written.tensors.size(), made.tensors().size());
  for (const TensorInfo& tensor : written.tensors) {
    const TensorInfo* other = made.find_tensor(tensor.name);
    ASSERT_NE(other, nullptr) << tensor.name;
    EXPECT_EQ(other->shape, tensor.shape);
    EXPECT_EQ(fnv1a(text_of(other->data)), fnv1a(text_of(tensor.data))) << tensor.name;
  }
}

TEST_F(CheckpointTest, RefusesConfigurationsThatDoNotFit) {
  struct Case {
    const char* model;
    const char* key;
    json value;
    const char* message;
  };
  const Case cases[] = {
      {"qwen3", "model_type", "bert", "model type 'bert' is not supported; supported: llama, mistral"},
      {"qwen3", "model_type", 5, "need a string, not a number (key 'model_type')"},
      {"qwen3", "num_hidden_layers", nullptr, "an entry is missing (key 'num_hidden_layers')"},
      {"qwen3", "num_hidden_layers", 0, "is 0, need 1 to 1024 (key 'num_hidden_layers')"},
      {"qwen3", "num_hidden_layers", "2", "need a whole number from 0 to 4294967295, not a string"},
      {"qwen3", "num_hidden_layers", -1, "not a negative number (key 'num_hidden_layers')"},
      {"qwen3", "num_hidden_layers", 1e300, "not a fraction (key 'num_hidden_layers')"},
      {"qwen3", "num_hidden_layers", uint64_t{1} << 40, "not 1099511627776 (key 'num_hidden_layers')"},
      {"qwen3", "num_hidden_layers", 1, "tensor 'model.layers.1.input_layernorm.weight' is none of the qwen3"},
      {"qwen3", "num_attention_heads", 0, "key 'num_attention_heads'"},
      {"qwen3", "num_key_value_heads", 99, "is 99, need 1 to 4 (key 'num_key_value_heads')"},
      {"qwen3", "head_dim", 1 << 20, "need 1 to 4096 (key 'head_dim')"},
      {"qwen3", "hidden_act", "relu", "is 'relu', which BASS does not compute here (key 'hidden_act')"},
      {"qwen3", "use_sliding_window", true, "is true, which BASS does not compute (key 'use_sliding_window')"},
      {"qwen3", "quantization_config", {{"quant_method", "gptq"}}, "(key 'quantization_config')"},
      {"qwen3", "vocab_size", 287, "is not 288, the number of the embedding's rows (key 'vocab_size')"},
      {"qwen3", "tie_word_embeddings", false, "the checkpoint has no head (key 'tie_word_embeddings')"},
      {"qwen3", "rope_parameters", {{"rope_type", "dynamic"}, {"factor", 2.0}}, "(key 'rope_parameters.rope_type')"},
      {"qwen3", "rope_parameters", {{"rope_type", "linear"}}, "is missing (key 'rope_parameters.factor')"},
      {"qwen3", "rope_scaling", "linear", "need an object or null, not a string (key 'rope_scaling')"},
      {"qwen3", "rope_scaling", 2.0, "need an object or null, not a fraction (key 'rope_scaling')"},
      {"qwen3", "rope_scaling", json::array(), "need an object or null, not an array (key 'rope_scaling')"},
      {"qwen3", "rope_scaling", {1, 2}, "need an object or null, not an array (key 'rope_scaling')"},
      {"qwen3", "rope_parameters", true, "need an object or null, not a boolean (key 'rope_parameters')"},
      {"gemma2", "attn_logit_softcapping", nullptr, "is null"},
      {"gemma3_q8_0", "use_bidirectional_attention", true, "(key 'use_bidirectional_attention')"},
      {"gemma3_q8_0",
       "rope_parameters",
       {{"sliding_attention", {{"rope_type", "linear"}, {"factor", 2.0}}}},
       "(key 'rope_parameters.sliding_attention.rope_type')"},
      {"llama_window", "num_attention_heads", 8, "does not fit what config.json says"},
      {"opt_q8_0", "do_layer_norm_before", false, "(key 'do_layer_norm_before')"},
      {"olmoe", "num_experts", 7, "tensor 'model.layers.0.mlp.experts.6.gate_proj.weight' is missing"},
      {"olmoe", "num_experts", 1 << 30, "need 1 to 4096 (key 'num_experts')"},
      {"phi3_longrope", "original_max_position_embeddings", 1, "is below 2"},
  };
  for (const Case& broken : cases) {
    json model = golden(broken.model);
    model["config"][broken.key] = broken.value;
    write(model);
    const Result<GgufFile> gguf = open();
    ASSERT_FALSE(gguf.ok()) << broken.key;
    EXPECT_EQ(gguf.status().code(), StatusCode::kInvalidFile);
    EXPECT_THAT(gguf.status().message(), AllOf(HasSubstr(directory_), HasSubstr(broken.message)));
  }
}

TEST_F(CheckpointTest, BiasesThatTheConfigurationPromisesMustBeThere) {
  const std::pair<const char*, const char*> flags[] = {
      {"llama_window", "attention_bias"}, {"llama_window", "mlp_bias"},      {"qwen3", "attention_bias"},
      {"gemma2", "attention_bias"},       {"gemma3_q8_0", "attention_bias"}, {"gemma_all_heads", "attention_bias"},
      {"smollm3_untied", "mlp_bias"},     {"olmoe", "attention_bias"},       {"qwen3moe_tied", "attention_bias"},
  };
  for (const auto& [name, flag] : flags) {
    json model = golden(name);
    model["config"]["model_type"] =
        model["config"]["model_type"] == "mistral" ? "llama" : model["config"]["model_type"];
    model["config"][flag] = true;
    write(model);
    const std::string first = std::string_view(flag) == "mlp_bias" ? "mlp.gate_proj" : "self_attn.q_proj";
    EXPECT_THAT(open().status().message(),
                AllOf(HasSubstr("tensor 'model.layers.0." + first + ".bias' is missing"), HasSubstr(flag)))
        << name;
  }
  json model = golden("stablelm_many_heads");  // has them
  write(model);
  EXPECT_TRUE(open().ok());
  std::erase_if(model["tensors"].get_ref<json::array_t&>(),
                [](const json& tensor) { return tensor[0] == "model.layers.1.self_attn.v_proj.bias"; });
  write(model);
  EXPECT_THAT(open().status().message(), HasSubstr("'model.layers.1.self_attn.v_proj.bias' is missing"));
}

TEST_F(CheckpointTest, WhatAConfigurationLeavesOutIsTransformersDefault) {
  const std::map<std::string, float> rms_eps{
      {"llama", 1e-6F},   {"mistral", 1e-6F}, {"mixtral", 1e-5F}, {"qwen2", 1e-6F},
      {"qwen3", 1e-6F},   {"gemma", 1e-6F},   {"gemma2", 1e-6F},  {"gemma3_text", 1e-6F},
      {"smollm3", 1e-6F}, {"phi3", 1e-5F},    {"olmoe", 1e-5F},   {"qwen3_moe", 1e-6F},
  };
  for (json model : checkpoint_goldens()) {
    SCOPED_TRACE(model["name"].get<std::string>());
    const auto rms = rms_eps.find(model["config"]["model_type"].get<std::string>());
    for (const char* key : {"rms_norm_eps", "layer_norm_epsilon", "layer_norm_eps", "norm_epsilon"}) {
      model["config"].erase(key);
    }
    model["config"][rms == rms_eps.end() ? "rms_norm_eps" : "layer_norm_eps"] = 0.5;  // means nothing here
    write(model);
    const Result<GgufFile> gguf = open();
    ASSERT_TRUE(gguf.ok()) << gguf.status().message();
    const std::string prefix = model["architecture"].get<std::string>() + ".attention.layer_norm_";
    const bool is_rms = rms != rms_eps.end();
    EXPECT_EQ(gguf->get_f32(prefix + (is_rms ? "rms_epsilon" : "epsilon")).value(), is_rms ? rms->second : 1e-5F);
  }
  const std::pair<const char*, float> bases[] = {
      {"smollm3_untied", 2e6F}, {"mixtral_window", 1e6F}, {"gemma3_q8_0", 1e6F}, {"llama_window", 1e4F}};
  for (const auto& [name, base] : bases) {
    json model = golden(name);
    model["config"].erase("rope_parameters");
    write(model);
    EXPECT_EQ(open()->get_f32(model["architecture"].get<std::string>() + ".rope.freq_base").value(), base) << name;
  }
}

// transformers' default is no window, whatever "sliding_window" says; OLMoE knows none.
TEST_F(CheckpointTest, AWindowIsUsedWhereTransformersUsesIt) {
  int n_checked = 0;
  for (json model : checkpoint_goldens()) {
    const auto type = model["config"]["model_type"].get<std::string>();
    const bool has_window = type == "mistral" || type == "mixtral" || type == "starcoder2";
    const bool has_none =
        type == "qwen2" || type == "qwen3" || type == "qwen3_moe" || type == "smollm3" || type == "olmoe";
    if (!has_window && !has_none) continue;
    SCOPED_TRACE(model["name"].get<std::string>());
    model["config"]["sliding_window"] = 8;
    model["config"].erase("use_sliding_window");
    model["config"].erase("layer_types");
    write(model);
    const Result<GgufFile> gguf = open();
    ASSERT_TRUE(gguf.ok()) << gguf.status().message();
    EXPECT_EQ(gguf->find(model["architecture"].get<std::string>() + ".attention.sliding_window") != nullptr,
              has_window);
    ++n_checked;
  }
  EXPECT_GE(n_checked, 6);
}

TEST_F(CheckpointTest, ArchitecturesWithoutKvHeadsIgnoreTheirNumber) {
  for (const char* name : {"gptneox_many_heads", "gpt2_wide_heads", "gptj_wide_heads", "opt_untied"}) {
    json model = golden(name);
    model["config"]["num_key_value_heads"] = 1;
    write(model);
    const Result<GgufFile> gguf = open();
    ASSERT_TRUE(gguf.ok()) << gguf.status().message();
    for (const auto& [key, value] : model["metadata"].items()) expect_metadata(gguf.value(), key, value);
  }
}

/// As configurations were before transformers 5, and as most that people download are.
json in_older_words(json config) {
  if (!config.contains("rope_parameters") || config["rope_parameters"].is_null()) return config;
  json rope = config["rope_parameters"];
  config.erase("rope_parameters");
  if (rope.contains("sliding_attention")) {
    config["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"];
    rope = rope["full_attention"];
  }
  for (const char* key : {"rope_theta", "partial_rotary_factor"}) {
    if (rope.contains(key)) config[key] = rope[key];
    rope.erase(key);
  }
  const json kind = rope["rope_type"];
  rope.erase("rope_type");
  rope["type"] = kind;
  config["rope_scaling"] = kind == "default" ? json() : rope;
  return config;
}

TEST_F(CheckpointTest, OlderConfigurationsMeanTheSame) {
  int n_compared = 0;
  for (const json& model : checkpoint_goldens()) {
    json older = model;
    older["config"] = in_older_words(model["config"]);
    if (older == model) continue;
    SCOPED_TRACE(model["name"].get<std::string>());
    write(older);
    const Result<GgufFile> gguf = open();
    ASSERT_TRUE(gguf.ok()) << gguf.status().message();
    for (const auto& [key, value] : model["metadata"].items()) expect_metadata(gguf.value(), key, value);
    EXPECT_EQ(gguf->tensors().size(), model["converted"].size());  // with the factors that are computed
    ++n_compared;
  }
  EXPECT_GT(n_compared, 20);
}

TEST_F(CheckpointTest, ScalingNeedsNoBaseAndStrayEntriesMeanNothing) {
  json model = golden("llama_linear_biases");
  model["config"].erase("rope_parameters");
  model["config"]["rope_scaling"] = {{"type", "linear"}, {"factor", 4.0}};
  model["config"]["sliding_window"] = 20;
  model["config"]["partial_rotary_factor"] = 0.5;
  write(model);
  const GgufFile gguf = open().value();
  for (const auto& [key, value] : model["metadata"].items()) {
    if (key != "llama.rope.freq_base") expect_metadata(gguf, key, value);
  }
  EXPECT_FALSE(gguf.has("llama.attention.sliding_window"));
}

TEST_F(CheckpointTest, LongropeHasAMagnitudeOfItsOwn) {
  json model = golden("phi3_longrope");
  model["config"]["rope_parameters"]["factor"] = 256.0;  // of an original length of 16
  write(model);
  EXPECT_FLOAT_EQ(open()->get_f32("phi3.rope.scaling.attn_factor").value(), std::sqrt(3.0F));
  model["config"]["rope_parameters"]["attention_factor"] = 1.5;
  write(model);
  EXPECT_FLOAT_EQ(open()->get_f32("phi3.rope.scaling.attn_factor").value(), 1.5F);
}

TEST_F(CheckpointTest, Gemma3MayHaveCaps) {
  json model = golden("gemma3_q8_0");
  model["config"]["attn_logit_softcapping"] = 10;
  model["config"]["final_logit_softcapping"] = 5.0;
  write(model);
  const GgufFile gguf = open().value();
  const ModelConfig config = find_architecture(gguf).value()->read_config(gguf).value();
  EXPECT_EQ(config.attention_cap, 10.0F);
  EXPECT_EQ(config.logit_cap, 5.0F);
}

TEST_F(CheckpointTest, RefusesTensorsThatDoNotFit) {
  json model = golden("llama_window");
  model["tensors"].push_back({"model.layers.0.self_attn.extra.weight", {2, 2}, 0, 1});
  write(model);
  EXPECT_THAT(open().status().message(), HasSubstr("'model.layers.0.self_attn.extra.weight' is none of the llama"));
  for (const char* name : {"q_proj", "k_proj"}) {  // their rows change places
    model = golden("llama_window");
    for (json& tensor : model["tensors"]) {
      if (tensor[0] == fmt::format("model.layers.1.self_attn.{}.weight", name)) tensor[1].push_back(1);
    }
    write(model);
    EXPECT_THAT(open().status().message(), HasSubstr(fmt::format("{}.weight' has shape [", name)));
  }
  model = golden("llama_window");
  model["tensors"].erase(model["tensors"].size() - 2);
  write(model);
  EXPECT_THAT(open().status().message(), HasSubstr("tensor 'blk.1.attn_v.weight' is missing"));
  model = golden("llama_window");
  model["config"]["intermediate_size"] = 64;
  write(model);
  EXPECT_THAT(open().status().message(), HasSubstr("tensor 'blk.0.ffn_gate.weight' has shape [64, 96], expected"));
  write(golden("llama_window"));
  fs::remove(directory_ + "/config.json");
  EXPECT_THAT(open().status().message(), HasSubstr("config.json: cannot open"));
}

TEST_F(CheckpointTest, AFileThatIsCutWhileItIsReadIsAnError) {
  write(golden("llama_window"));
  const VocabData vocab = testing::make_byte_vocab({}, {});
  ModelSource source = open_checkpoint(directory_, &vocab).value();
  fs::resize_file(directory_ + "/a.safetensors", 5000);
  ThreadTeam team(2);
  const Result<GgufFile> gguf = make_gguf(std::move(source), &team);
  ASSERT_FALSE(gguf.ok());
  EXPECT_THAT(gguf.status().message(), AllOf(HasSubstr("a.safetensors"), HasSubstr("its bytes went away")));
}

}  // namespace
}  // namespace bass
