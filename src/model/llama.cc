// The llama architecture: RMSNorm, rotary embeddings on neighbouring pairs, grouped-query attention, SwiGLU.
#include <fmt/format.h>

#include "base/check.h"
#include "kernels/cpu/kernels.h"
#include "model/architecture.h"
#include "model/tensor_lookup.h"

namespace bass {
namespace {

constexpr int kMaxLayers = 1024;
constexpr int kMaxDim = 1 << 20;
constexpr int kMaxVocab = 1 << 24;
constexpr int kMaxContext = 1 << 26;
constexpr int kHeadDimStep = 16;  // attention works on whole vectors of a head

// What this file does not compute must not pass silently.
Status refuse_unsupported(const GgufFile& gguf) {
  if (gguf.has("llama.rope.scaling.type")) {
    BASS_ASSIGN_OR_RETURN(const auto type, gguf.get_string("llama.rope.scaling.type"));
    if (type != "none") {
      return invalid_file(fmt::format("{}: rope scaling '{}' is not supported", gguf.file().path(), type));
    }
  }
  for (const char* name : {"rope_freqs.weight", "blk.0.attn_q.bias", "blk.0.ffn_gate_inp.weight"}) {
    if (gguf.find_tensor(name) != nullptr) {
      return invalid_file(
          fmt::format("{}: tensor '{}' (scaled rope, biases or experts) is not supported", gguf.file().path(), name));
    }
  }
  return ok_status();
}

Result<ModelConfig> read_config(const GgufFile& gguf) {
  BASS_RETURN_IF_ERROR(refuse_unsupported(gguf));
  ModelConfig config;
  config.architecture = "llama";
  BASS_ASSIGN_OR_RETURN(config.n_layers, read_int(gguf, "llama.block_count", 1, kMaxLayers));
  BASS_ASSIGN_OR_RETURN(config.d_model, read_int(gguf, "llama.embedding_length", 1, kMaxDim));
  BASS_ASSIGN_OR_RETURN(config.d_ff, read_int(gguf, "llama.feed_forward_length", 1, kMaxDim));
  BASS_ASSIGN_OR_RETURN(config.n_heads, read_int(gguf, "llama.attention.head_count", 1, kMaxDim));
  BASS_ASSIGN_OR_RETURN(config.n_kv_heads,
                        read_int_or(gguf, "llama.attention.head_count_kv", config.n_heads, 1, config.n_heads));
  BASS_ASSIGN_OR_RETURN(config.head_dim,
                        read_int_or(gguf, "llama.attention.key_length", config.d_model / config.n_heads, 1, kMaxDim));
  BASS_ASSIGN_OR_RETURN(config.rope_dim, read_int_or(gguf, "llama.rope.dimension_count", config.head_dim, 1, kMaxDim));
  BASS_ASSIGN_OR_RETURN(config.context_len, read_int(gguf, "llama.context_length", 1, kMaxContext));
  BASS_ASSIGN_OR_RETURN(config.rope_base, read_positive_float_or(gguf, "llama.rope.freq_base", 10000.0f));
  BASS_ASSIGN_OR_RETURN(config.rms_eps, read_positive_float_or(gguf, "llama.attention.layer_norm_rms_epsilon", 1e-5f));
  const TensorInfo* embedding = gguf.find_tensor("token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2 || embedding->shape[1] > kMaxVocab) {
    return invalid_file(
        fmt::format("{}: tensor 'token_embd.weight' is missing or no matrix (a vocabulary-only file "
                    "can be used for tokenize, not for a model)",
                    gguf.file().path()));
  }
  config.vocab_size = static_cast<int>(embedding->shape[1]);
  BASS_RETURN_IF_ERROR(check_llama_shape(gguf.file().path(), config));
  return config;
}

Result<LayerRefs> find_layer(const GgufFile& gguf, const ModelConfig& config, int layer_idx) {
  const std::string prefix = fmt::format("blk.{}.", layer_idx);
  const int d_model = config.d_model;
  LayerRefs layer;
  BASS_ASSIGN_OR_RETURN(layer.attention_norm, read_vector(gguf, prefix + "attn_norm.weight", d_model));
  BASS_ASSIGN_OR_RETURN(layer.feed_forward_norm, read_vector(gguf, prefix + "ffn_norm.weight", d_model));
  BASS_ASSIGN_OR_RETURN(layer.q, find_matrix(gguf, prefix + "attn_q.weight", config.q_dim(), d_model));
  BASS_ASSIGN_OR_RETURN(layer.k, find_matrix(gguf, prefix + "attn_k.weight", config.kv_dim(), d_model));
  BASS_ASSIGN_OR_RETURN(layer.v, find_matrix(gguf, prefix + "attn_v.weight", config.kv_dim(), d_model));
  BASS_ASSIGN_OR_RETURN(layer.output, find_matrix(gguf, prefix + "attn_output.weight", d_model, config.q_dim()));
  BASS_ASSIGN_OR_RETURN(layer.gate, find_matrix(gguf, prefix + "ffn_gate.weight", config.d_ff, d_model));
  BASS_ASSIGN_OR_RETURN(layer.up, find_matrix(gguf, prefix + "ffn_up.weight", config.d_ff, d_model));
  BASS_ASSIGN_OR_RETURN(layer.down, find_matrix(gguf, prefix + "ffn_down.weight", d_model, config.d_ff));
  return layer;
}

Result<WeightRefs> find_weights(const GgufFile& gguf, const ModelConfig& config) {
  WeightRefs weights;
  BASS_ASSIGN_OR_RETURN(weights.embedding, find_matrix(gguf, "token_embd.weight", config.vocab_size, config.d_model));
  weights.is_head_tied = gguf.find_tensor("output.weight") == nullptr;
  weights.head = weights.embedding;
  if (!weights.is_head_tied) {
    BASS_ASSIGN_OR_RETURN(weights.head, find_matrix(gguf, "output.weight", config.vocab_size, config.d_model));
  }
  BASS_ASSIGN_OR_RETURN(weights.output_norm, read_vector(gguf, "output_norm.weight", config.d_model));
  for (int i = 0; i < config.n_layers; ++i) {
    BASS_ASSIGN_OR_RETURN(LayerRefs layer, find_layer(gguf, config, i));
    weights.layers.push_back(std::move(layer));
  }
  return weights;
}

}  // namespace

Status check_llama_shape(const std::string& source, const ModelConfig& config) {
  if (config.n_heads % config.n_kv_heads != 0) {
    return invalid_file(
        fmt::format("{}: {} query heads are no multiple of {} KV heads", source, config.n_heads, config.n_kv_heads));
  }
  if (config.head_dim % kHeadDimStep != 0 || config.head_dim > cpu::kMaxHeadDim) {
    return invalid_file(fmt::format("{}: head dimension {} is not supported; it must be a multiple of {} up to {}",
                                    source, config.head_dim, kHeadDimStep, cpu::kMaxHeadDim));
  }
  if (config.rope_dim > config.head_dim || config.rope_dim % 2 != 0) {
    return invalid_file(fmt::format("{}: key 'llama.rope.dimension_count' is {}, expected an even number up to {}",
                                    source, config.rope_dim, config.head_dim));
  }
  return ok_status();
}

const Architecture kLlamaArchitecture{"llama", read_config, find_weights};

}  // namespace bass
