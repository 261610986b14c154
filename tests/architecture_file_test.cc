// Files of every architecture with a fault: each ends in a sentence that names the file.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "model/model_file.h"
#include "support/engine_run.h"
#include "support/temp_folder.h"
#include "support/test_models.h"

namespace bass::testing {
namespace {

std::vector<std::string> architecture_files() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(data_file("architectures"))) {
    if (entry.path().extension() == ".gguf") paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

class ArchitectureFileTest : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Gguf, ArchitectureFileTest, ::testing::ValuesIn(architecture_files()),
                         [](const auto& test) { return std::filesystem::path(test.param).stem().string(); });

TEST_P(ArchitectureFileTest, FaultyFilesEndInASentence) {
  const TempFolder folder;
  const std::string copy = folder / "faulty.gguf";
  const auto refusal = [&](const ModelEdit& edit) {
    write_edited_model(GetParam(), edit, copy);
    const Result<ModelFile> file = load_model_file(copy);
    return file.ok() ? std::string() : file.status().message();
  };
  EXPECT_EQ(refusal({}), "") << "the copy itself is sound";
  const GgufFile file = GgufFile::open(GetParam()).value();
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

}  // namespace
}  // namespace bass::testing
