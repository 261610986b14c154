#include "model/synthetic_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "model/decoder_config.h"
#include "model/gguf_vocab.h"
#include "model/random_blocks.h"

namespace bass {
namespace {

constexpr std::array kShapes{
    SyntheticShape{"llama-1b", 2048, 8192, 16, 32, 8, 64, 128256, 131072, 500000.0f, true},
    SyntheticShape{"llama-3b", 3072, 8192, 28, 24, 8, 128, 128256, 131072, 500000.0f, true},
    SyntheticShape{"llama-8b", 4096, 14336, 32, 32, 8, 128, 128256, 131072, 500000.0f, false},
    SyntheticShape{"smollm2-135m", 576, 1536, 30, 9, 3, 64, 49152, 8192, 100000.0f, true},
    // Of the BASS paper: its layers and widths in Llama's blocks; gated feed-forward parts of a width that gives as
    // many weights.
    SyntheticShape{"paper-7.8b", 4096, 13824, 32, 32, 32, 128, 51200, 4096, 10000.0f, true},
    SyntheticShape{"paper-310m", 2048, 5632, 4, 16, 16, 128, 51200, 4096, 10000.0f, true},
    SyntheticShape{"paper-opt-13b", 5120, 13632, 40, 40, 40, 128, 50272, 2048, 10000.0f, true},
    SyntheticShape{"paper-opt-125m", 768, 2048, 12, 12, 12, 64, 50272, 2048, 10000.0f, true},
    SyntheticShape{"paper-opt-350m", 1024, 2720, 24, 16, 16, 64, 50272, 2048, 10000.0f, true},
    SyntheticShape{"paper-codegen-16b", 6144, 16384, 34, 24, 24, 256, 51200, 2048, 10000.0f, true},
    SyntheticShape{"paper-codegen-350m", 1024, 2720, 20, 16, 16, 64, 51200, 2048, 10000.0f, true},
};

// Of the logits, by the weight of the last norm: about as peaked as a language model's, so that sampling has its usual
// work.
constexpr float kLogitStdDev = 4.0f;
constexpr size_t kPieceBytes = size_t{8} << 20;

struct PlannedTensor {
  std::string name;
  std::vector<int64_t> shape;  ///< GGUF's order; one size: a norm, F32
  float norm_weight = 1.0f;

  [[nodiscard]] bool is_norm() const { return shape.size() == 1; }
};

// A matrix has its standard deviation from its inputs: rows of 1 / sqrt(n_in) keep what they multiply at order 1.
std::vector<PlannedTensor> plan_tensors(const SyntheticModel& model) {
  const ModelConfig& c = model.config;
  std::vector<PlannedTensor> tensors{{"token_embd.weight", {c.d_model, c.vocab_size}},
                                     {"output_norm.weight", {c.d_model}, kLogitStdDev}};
  if (!model.is_head_tied) tensors.push_back({"output.weight", {c.d_model, c.vocab_size}});
  for (int i = 0; i < c.n_layers; ++i) {
    const auto add = [&](std::string_view name, std::vector<int64_t> shape) {
      tensors.push_back({fmt::format("blk.{}.{}.weight", i, name), std::move(shape)});
    };
    add("attn_norm", {c.d_model});
    add("attn_q", {c.d_model, c.q_dim()});
    add("attn_k", {c.d_model, c.kv_dim()});
    add("attn_v", {c.d_model, c.kv_dim()});
    add("attn_output", {c.q_dim(), c.d_model});
    add("ffn_norm", {c.d_model});
    add("ffn_gate", {c.d_model, c.d_ff});
    add("ffn_up", {c.d_model, c.d_ff});
    add("ffn_down", {c.d_ff, c.d_model});
  }
  return tensors;
}

std::string type_text(DType type) { return std::string(dtype_info(type).name); }

void add_metadata(const SyntheticModel& model, GgufWriter* writer) {
  const ModelConfig& c = model.config;
  const auto add_size = [&](std::string_view key, int value) {
    writer->add_u32(fmt::format("llama.{}", key), static_cast<uint32_t>(value));
  };
  writer->add_string("general.architecture", "llama");
  writer->add_string("general.type", "model");
  writer->add_string("general.name", fmt::format("{} (synthetic: random weights)", c.name));
  writer->add_string("general.description",
                     fmt::format("Random weights in the shape of {}, written by bass synth: {}, seed {}. It measures "
                                 "speed and memory; its text means nothing.",
                                 c.name, type_text(model.type), model.seed));
  writer->add_bool(kSyntheticKey, true);
  writer->add_file_type(model.type);
  add_size("block_count", c.n_layers);
  add_size("context_length", c.context_len);
  add_size("embedding_length", c.d_model);
  add_size("feed_forward_length", c.d_ff);
  add_size("attention.head_count", c.n_heads);
  add_size("attention.head_count_kv", c.n_kv_heads);
  add_size("attention.key_length", c.head_dim);
  add_size("attention.value_length", c.head_dim);
  add_size("rope.dimension_count", c.rope_dim);
  add_size("vocab_size", c.vocab_size);
  writer->add_f32("llama.rope.freq_base", c.ropes.front().base);
  writer->add_f32("llama.attention.layer_norm_rms_epsilon", c.norm_eps);
  add_vocab(model.vocab, writer);
}

std::vector<PlannedTensor> add_everything(const SyntheticModel& model, GgufWriter* writer) {
  add_metadata(model, writer);
  std::vector<PlannedTensor> tensors = plan_tensors(model);
  for (const PlannedTensor& tensor : tensors) {
    writer->add_tensor(tensor.name, tensor.is_norm() ? DType::kF32 : model.type, tensor.shape);
  }
  return tensors;
}

Status write_norm(const PlannedTensor& tensor, GgufWriter* writer) {
  const std::vector<float> weights(static_cast<size_t>(tensor.shape.front()), tensor.norm_weight);
  return writer->write(std::as_bytes(std::span(weights)));
}

Status write_matrix(const RandomTensor& random, const PlannedTensor& tensor, ThreadTeam* team,
                    std::vector<std::byte>* buffer, GgufWriter* writer) {
  const size_t unit_bytes = random_unit_bytes(random.type);
  const auto piece_len = static_cast<int64_t>(buffer->size() / unit_bytes);
  const int64_t n_units = tensor.shape[0] * tensor.shape[1] / kRandomUnitLen;
  for (int64_t begin = 0; begin < n_units; begin += piece_len) {
    const int64_t n = std::min(piece_len, n_units - begin);
    team->run([&](const TeamContext& context) {
      const WorkRange mine = context.share(static_cast<int>(n));
      fill_random_units(random, begin + mine.begin, mine.end - mine.begin,
                        buffer->data() + static_cast<size_t>(mine.begin) * unit_bytes);
    });
    BASS_RETURN_IF_ERROR(writer->write(std::span(*buffer).first(static_cast<size_t>(n) * unit_bytes)));
  }
  return ok_status();
}

}  // namespace

std::span<const SyntheticShape> synthetic_shapes() { return kShapes; }

SyntheticModel make_synthetic_model(const SyntheticShape& shape) {
  SyntheticModel model;
  ModelConfig& config = model.config;
  config.name = shape.name;
  config.architecture = "llama";
  config.d_model = shape.d_model;
  config.d_ff = shape.d_ff;
  config.n_layers = shape.n_layers;
  config.n_heads = shape.n_heads;
  config.n_kv_heads = shape.n_kv_heads;
  config.head_dim = config.rope_dim = shape.head_dim;
  config.vocab_size = shape.vocab_size;
  config.context_len = shape.context_len;
  config.ropes.front().base = shape.rope_base;
  model.is_head_tied = shape.is_head_tied;
  model.vocab = synthetic_vocab(shape.vocab_size);
  return model;
}

Status check_synthetic_model(const SyntheticModel& model, const std::string& source) {
  const ModelConfig& c = model.config;
  BASS_RETURN_IF_ERROR(check_decoder_shape(source, c));
  for (const auto& [what, len] : {std::pair("model", c.d_model), {"feed-forward", c.d_ff}, {"attention", c.q_dim()}}) {
    if (len % kRandomUnitLen == 0) continue;
    return invalid_file(
        fmt::format("{}: the {} dimension is {}, need a multiple of {}", source, what, len, kRandomUnitLen));
  }
  if (static_cast<int>(model.vocab.tokens.size()) > c.vocab_size) {
    return invalid_file(fmt::format("{}: has {} tokens, more than the {} rows of the shape's embedding",
                                    model.vocab.source, model.vocab.tokens.size(), c.vocab_size));
  }
  return ok_status();
}

int64_t synthetic_file_bytes(const SyntheticModel& model) {
  GgufWriter writer(nullptr);
  add_everything(model, &writer);
  return static_cast<int64_t>(writer.file_bytes());
}

Status write_synthetic_model(const SyntheticModel& model, ThreadTeam* team, const ByteSink& sink) {
  GgufWriter writer(sink);
  const std::vector<PlannedTensor> tensors = add_everything(model, &writer);
  BASS_RETURN_IF_ERROR(writer.begin());
  std::vector<std::byte> buffer(kPieceBytes);
  RandomTensor random{.type = model.type, .seed = model.seed};
  for (const PlannedTensor& tensor : tensors) {
    random.std_dev = 1.0f / std::sqrt(static_cast<float>(tensor.shape.front()));
    BASS_RETURN_IF_ERROR(tensor.is_norm() ? write_norm(tensor, &writer)
                                          : write_matrix(random, tensor, team, &buffer, &writer));
    ++random.tensor_idx;
  }
  return writer.finish();
}

}  // namespace bass
