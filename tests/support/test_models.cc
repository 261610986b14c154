#include "support/test_models.h"

#include <cstdlib>
#include <random>
#include <string_view>

#include "base/check.h"
#include "io/gguf.h"

namespace bass::testing {
namespace {

void copy_entry(GgufBuilder& builder, std::string_view key, const GgufValue& value) {
  if (const auto* number = std::get_if<uint64_t>(&value)) builder.add_u32(key, static_cast<uint32_t>(*number));
  if (const auto* number = std::get_if<int64_t>(&value)) builder.add_i32(key, static_cast<int32_t>(*number));
  if (const auto* number = std::get_if<double>(&value)) builder.add_f32(key, static_cast<float>(*number));
  if (const auto* flag = std::get_if<bool>(&value)) builder.add_bool(key, *flag);
  if (const auto* text = std::get_if<std::string_view>(&value)) builder.add_string(key, *text);
  if (const auto* array = std::get_if<GgufArray>(&value)) {
    std::string body = GgufBuilder::bytes_of(static_cast<uint32_t>(array->element_type)) +
                       GgufBuilder::bytes_of(static_cast<uint64_t>(array->n_elements));
    body.append(reinterpret_cast<const char*>(array->bytes.data()), array->bytes.size());
    builder.raw_entry(key, 9, body);
  }
}

GgufFile open(const std::string& path) {
  Result<GgufFile> file = GgufFile::open(path);
  BASS_CHECK(file.ok());
  return std::move(file).value();
}

bool is_layer_at_or_above(std::string_view tensor_name, int n_layers) {
  constexpr std::string_view kPrefix = "blk.";
  if (!tensor_name.starts_with(kPrefix)) return false;
  return std::atoi(std::string(tensor_name.substr(kPrefix.size())).c_str()) >= n_layers;
}

}  // namespace

void write_edited_model(const std::string& source, const ModelEdit& edit, const std::string& path) {
  const GgufFile file = open(source);
  GgufBuilder builder;
  for (const auto& [key, value] : file.metadata()) {
    const bool is_left_out = edit.without.ends_with('.') ? key.starts_with(edit.without) : key == edit.without;
    if (!is_left_out) copy_entry(builder, key, value);
  }
  for (const TensorInfo& tensor : file.tensors()) {
    if (tensor.name == edit.without) continue;
    std::vector<uint64_t> shape(tensor.shape.begin(), tensor.shape.end());
    size_t n_bytes = tensor.data.size();
    if (tensor.name == edit.misshapen) {
      n_bytes = n_bytes / shape.back() * (shape.back() / 2);
      shape.back() /= 2;
    }
    builder.add_tensor(tensor.name, static_cast<uint32_t>(tensor.type), shape,
                       {reinterpret_cast<const char*>(tensor.data.data()), n_bytes});
  }
  if (edit.add) edit.add(builder);
  builder.write(path);
}

void write_truncated_model(const std::string& source, int n_layers, const std::string& path) {
  const GgufFile file = open(source);
  GgufBuilder builder;
  for (const auto& [key, value] : file.metadata()) {
    if (key != "llama.block_count") copy_entry(builder, key, value);
  }
  builder.add_u32("llama.block_count", static_cast<uint32_t>(n_layers));
  for (const TensorInfo& tensor : file.tensors()) {
    if (is_layer_at_or_above(tensor.name, n_layers)) continue;
    builder.add_tensor(tensor.name, static_cast<uint32_t>(tensor.type), {tensor.shape.begin(), tensor.shape.end()},
                       {reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size()});
  }
  builder.write(path);
}

void write_random_model(const std::string& source, uint32_t seed, const std::string& path, size_t n_dropped) {
  constexpr uint32_t kDModel = 64;
  constexpr uint32_t kDFf = 128;
  const GgufFile file = open(source);
  GgufBuilder builder;
  for (const auto& [key, value] : file.metadata()) {
    if (!key.starts_with("llama.") && !std::holds_alternative<GgufArray>(value)) copy_entry(builder, key, value);
  }
  for (const char* key : {"tokenizer.ggml.tokens", "tokenizer.ggml.merges"}) {
    const auto texts = file.get_string_array(key).value();
    builder.add_strings(key, {texts.begin(), texts.end() - static_cast<ptrdiff_t>(n_dropped)});
  }
  const auto types = file.get_int_array("tokenizer.ggml.token_type").value();
  builder.add_i32s("tokenizer.ggml.token_type", {types.begin(), types.end() - static_cast<ptrdiff_t>(n_dropped)});
  builder.add_u32("llama.block_count", 1).add_u32("llama.context_length", file.get_u32("llama.context_length").value());
  builder.add_u32("llama.embedding_length", kDModel).add_u32("llama.feed_forward_length", kDFf);
  builder.add_u32("llama.attention.head_count", 2).add_f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, 0.3f);
  const auto add_random = [&](std::string_view name, std::vector<uint64_t> shape) {
    size_t n = 1;
    for (const uint64_t size : shape) n *= size;
    std::vector<float> values(n);
    for (float& value : values) value = normal(random);
    builder.add_f32_tensor(name, shape, values);
  };
  add_random("token_embd.weight", {kDModel, types.size() - n_dropped});
  builder.add_f32_tensor("output_norm.weight", {kDModel}, std::vector<float>(kDModel, 1.0f));
  builder.add_f32_tensor("blk.0.attn_norm.weight", {kDModel}, std::vector<float>(kDModel, 1.0f));
  builder.add_f32_tensor("blk.0.ffn_norm.weight", {kDModel}, std::vector<float>(kDModel, 1.0f));
  for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output"}) {
    add_random("blk.0." + std::string(name) + ".weight", {kDModel, kDModel});
  }
  add_random("blk.0.ffn_gate.weight", {kDModel, kDFf});
  add_random("blk.0.ffn_up.weight", {kDModel, kDFf});
  add_random("blk.0.ffn_down.weight", {kDFf, kDModel});
  builder.write(path);
}

}  // namespace bass::testing
