#include "model/decoder_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "base/check.h"
#include "model/tensor_lookup.h"

namespace bass {
namespace {

constexpr int kMaxLayers = 1024;
constexpr int kMaxContext = 1 << 26;
constexpr int kMaxExperts = 1 << 12;
constexpr int kHeadDimStep = 16;  // attention works on whole vectors of a head

Status read_sizes(const GgufFile& gguf, ModelConfig* config) {
  const auto key = [config](std::string_view name) { return config_key(*config, name); };
  BASS_ASSIGN_OR_RETURN(config->n_layers, read_int(gguf, key("block_count"), 1, kMaxLayers));
  BASS_ASSIGN_OR_RETURN(config->d_model, read_int(gguf, key("embedding_length"), 1, kMaxDim));
  BASS_ASSIGN_OR_RETURN(config->n_heads, read_int(gguf, key("attention.head_count"), 1, kMaxDim));
  BASS_ASSIGN_OR_RETURN(config->n_kv_heads,
                        read_int_or(gguf, key("attention.head_count_kv"), config->n_heads, 1, config->n_heads));
  const bool has_head_dim = gguf.has(key("attention.key_length"));
  BASS_ASSIGN_OR_RETURN(config->head_dim,
                        read_int_or(gguf, key("attention.key_length"), config->d_model / config->n_heads, 1, kMaxDim));
  if (!has_head_dim && config->d_model % config->n_heads != 0) {
    return invalid_file(fmt::format("{}: {} query heads do not divide the embedding length {}, and '{}' is missing",
                                    gguf.path(), config->n_heads, config->d_model, key("attention.key_length")));
  }
  BASS_ASSIGN_OR_RETURN(const int value_len,
                        read_int_or(gguf, key("attention.value_length"), config->head_dim, 1, kMaxDim));
  if (value_len != config->head_dim) {
    return invalid_file(fmt::format("{}: key '{}' is {}, but heads of keys have {}; they must be alike", gguf.path(),
                                    key("attention.value_length"), value_len, config->head_dim));
  }
  BASS_ASSIGN_OR_RETURN(config->context_len, read_int(gguf, key("context_length"), 1, kMaxContext));
  BASS_ASSIGN_OR_RETURN(config->norm_eps,
                        read_positive_float_or(gguf,
                                               key(config->norm == NormType::kRms ? "attention.layer_norm_rms_epsilon"
                                                                                  : "attention.layer_norm_epsilon"),
                                               1e-5f));
  if (config->main) return ok_status();  // its vocabulary is known
  const TensorInfo* embedding = gguf.find_tensor("token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2 || embedding->shape[1] > kMaxVocab) {
    return invalid_file(
        fmt::format("{}: tensor 'token_embd.weight' is missing or no matrix (a vocabulary-only file "
                    "can be used for tokenize, not for a model)",
                    gguf.path()));
  }
  config->vocab_size = static_cast<int>(embedding->shape[1]);
  return ok_status();
}

Status read_feed_forward(const GgufFile& gguf, ModelConfig* config) {
  const auto key = [config](std::string_view name) { return config_key(*config, name); };
  BASS_ASSIGN_OR_RETURN(config->n_experts, read_int_or(gguf, key("expert_count"), 0, 0, kMaxExperts));
  if (config->n_experts == 0) {
    BASS_ASSIGN_OR_RETURN(config->d_ff, read_int(gguf, key("feed_forward_length"), 1, kMaxDim));
    return ok_status();
  }
  BASS_ASSIGN_OR_RETURN(config->n_experts_used, read_int(gguf, key("expert_used_count"), 1, config->n_experts));
  const bool has_own = gguf.has(key("expert_feed_forward_length"));
  BASS_ASSIGN_OR_RETURN(
      config->d_ff, read_int(gguf, key(has_own ? "expert_feed_forward_length" : "feed_forward_length"), 1, kMaxDim));
  return ok_status();
}

// Factors that are stored as a tensor, a pair's each.
Status read_rope_factors(const GgufFile& gguf, const char* name, int rope_dim, std::vector<float>* factors) {
  if (gguf.find_tensor(name) == nullptr) return ok_status();
  BASS_ASSIGN_OR_RETURN(*factors, read_vector(gguf, name, rope_dim / 2));
  for (const float factor : *factors) {
    if (factor > 0) continue;
    return invalid_file(fmt::format("{}: tensor '{}' holds {}, expected numbers above 0", gguf.path(), name, factor));
  }
  return ok_status();
}

// YaRN (arXiv 2309.00071): pairs that turn more often than beta_fast times in the original context keep their
// frequency, those that turn less often than beta_slow times are slowed down by the factor, the others by something
// between.
Status read_yarn(const GgufFile& gguf, ModelConfig* config) {
  const auto key = [config](std::string_view name) { return config_key(*config, name); };
  RopeConfig& rope = config->ropes.front();
  BASS_ASSIGN_OR_RETURN(const float factor, read_positive_float_or(gguf, key("rope.scaling.factor"), 1.0f));
  BASS_ASSIGN_OR_RETURN(const float fast, read_positive_float_or(gguf, key("rope.scaling.yarn_beta_fast"), 32.0f));
  BASS_ASSIGN_OR_RETURN(const float slow, read_positive_float_or(gguf, key("rope.scaling.yarn_beta_slow"), 1.0f));
  const double dim = config->rope_dim;
  const auto pair_that_turns = [&](double n_turns) {
    return dim * std::log(rope.original_context_len / (n_turns * 2 * std::numbers::pi)) / (2 * std::log(rope.base));
  };
  const double first = std::max(std::floor(pair_that_turns(fast)), 0.0);
  const double last = std::max(std::min(std::ceil(pair_that_turns(slow)), dim - 1), first + 0.001);
  for (int pair = 0; pair < config->rope_dim / 2; ++pair) {
    const double slowed = std::clamp((pair - first) / (last - first), 0.0, 1.0);
    rope.factors.push_back(static_cast<float>(1 / (slowed / factor + (1 - slowed))));
  }
  rope.magnitude *= static_cast<float>(1 + 0.1 * std::log(std::max(factor, 1.0f)));
  return ok_status();
}

Status read_rope(const GgufFile& gguf, ModelConfig* config) {
  const auto key = [config](std::string_view name) { return config_key(*config, name); };
  RopeConfig& rope = config->ropes.front();
  if (config->rope_dim == 0) config->rope_dim = config->head_dim;
  BASS_ASSIGN_OR_RETURN(config->rope_dim, read_int_or(gguf, key("rope.dimension_count"), config->rope_dim, 1, kMaxDim));
  if (config->rope_dim > config->head_dim || config->rope_dim % 2 != 0) {
    return invalid_file(fmt::format("{}: key '{}' is {}, expected an even number up to {}", gguf.path(),
                                    key("rope.dimension_count"), config->rope_dim, config->head_dim));
  }
  BASS_ASSIGN_OR_RETURN(rope.base, read_positive_float_or(gguf, key("rope.freq_base"), rope.base));
  BASS_ASSIGN_OR_RETURN(const std::string_view scaling, gguf.get_string_or(key("rope.scaling.type"), "none"));
  if (scaling == "linear") {
    BASS_ASSIGN_OR_RETURN(rope.factor, read_positive_float_or(gguf, key("rope.scaling.factor"), 1.0f));
  } else if (scaling != "none" && scaling != "yarn" && scaling != "longrope") {
    return invalid_file(
        fmt::format("{}: rope scaling '{}' is not supported; linear, yarn and longrope are", gguf.path(), scaling));
  }
  if (scaling == "none") {  // as older files have it
    BASS_ASSIGN_OR_RETURN(rope.factor, read_positive_float_or(gguf, key("rope.scale_linear"), 1.0f));
  }
  BASS_ASSIGN_OR_RETURN(rope.magnitude, read_positive_float_or(gguf, key("rope.scaling.attn_factor"), 1.0f));
  BASS_ASSIGN_OR_RETURN(rope.original_context_len, read_int_or(gguf, key("rope.scaling.original_context_length"),
                                                               config->context_len, 1, kMaxContext));
  if (scaling == "yarn") return read_yarn(gguf, config);
  BASS_RETURN_IF_ERROR(read_rope_factors(gguf, "rope_freqs.weight", config->rope_dim, &rope.factors));
  BASS_RETURN_IF_ERROR(read_rope_factors(gguf, "rope_factors_short.weight", config->rope_dim, &rope.factors));
  RopeConfig long_rope = rope;
  long_rope.factors.clear();
  BASS_RETURN_IF_ERROR(read_rope_factors(gguf, "rope_factors_long.weight", config->rope_dim, &long_rope.factors));
  if (scaling == "longrope" && (rope.factors.empty() || long_rope.factors.empty())) {
    return invalid_file(
        fmt::format("{}: rope scaling 'longrope' needs the tensors 'rope_factors_short.weight' and "
                    "'rope_factors_long.weight'",
                    gguf.path()));
  }
  if (long_rope.factors.empty()) return ok_status();
  rope.long_rope = static_cast<int>(config->ropes.size());
  config->ropes.push_back(std::move(long_rope));
  return ok_status();
}

}  // namespace

std::string config_key(const ModelConfig& config, std::string_view key) {
  return fmt::format("{}.{}", config.architecture, key);
}

Status read_decoder_config(const GgufFile& gguf, std::string_view architecture, ModelConfig* config) {
  config->architecture = architecture;
  BASS_RETURN_IF_ERROR(read_sizes(gguf, config));
  BASS_RETURN_IF_ERROR(read_feed_forward(gguf, config));
  if (!config->ropes.empty()) BASS_RETURN_IF_ERROR(read_rope(gguf, config));
  LayerConfig layer;
  if (config->ropes.empty()) layer.rope = LayerConfig::kNoRope;
  BASS_ASSIGN_OR_RETURN(layer.window,
                        read_int_or(gguf, config_key(*config, "attention.sliding_window"), 0, 0, kMaxContext));
  config->layers.assign(static_cast<size_t>(config->n_layers), layer);
  BASS_ASSIGN_OR_RETURN(config->attention_scale,
                        read_positive_float_or(gguf, config_key(*config, "attention.scale"), config->attention_scale));
  return check_decoder_shape(gguf.path(), *config);
}

Status read_window_pattern(const GgufFile& gguf, int period, ModelConfig* config) {
  const std::string key = config_key(*config, "attention.sliding_window_pattern");
  const GgufValue* pattern = gguf.find(key);
  if (pattern != nullptr && std::holds_alternative<GgufArray>(*pattern)) {
    BASS_ASSIGN_OR_RETURN(const std::vector<int64_t> flags, gguf.get_int_array(key));
    if (flags.size() != config->layers.size()) {
      return invalid_file(fmt::format("{}: key '{}' has {} elements, the model has {} layers", gguf.path(), key,
                                      flags.size(), config->layers.size()));
    }
    for (size_t i = 0; i < flags.size(); ++i) {
      if (flags[i] == 0) config->layers[i].window = 0;
    }
    return ok_status();
  }
  BASS_ASSIGN_OR_RETURN(period, read_int_or(gguf, key, period, 1, kMaxLayers));
  for (int i = period - 1; i < config->n_layers; i += period) config->layers[static_cast<size_t>(i)].window = 0;
  return ok_status();
}

Status check_decoder_shape(const std::string& source, const ModelConfig& config) {
  if (config.n_heads % config.n_kv_heads != 0) {
    return invalid_file(
        fmt::format("{}: {} query heads are no multiple of {} KV heads", source, config.n_heads, config.n_kv_heads));
  }
  if (config.head_dim % kHeadDimStep != 0 || config.head_dim > cpu::kMaxHeadDim) {
    return invalid_file(fmt::format("{}: head dimension {} is not supported; it must be a multiple of {} up to {}",
                                    source, config.head_dim, kHeadDimStep, cpu::kMaxHeadDim));
  }
  return ok_status();
}

}  // namespace bass
