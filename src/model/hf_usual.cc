#include "model/hf_usual.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace bass {
namespace {

/// Llama 3's scaling: slow rotations are divided by the factor, fast ones kept, those between blended. GGUF files have
/// what each frequency is divided by as a tensor.
std::vector<float> llama3_divisors(HfImport* import, const std::string& prefix, double base, int64_t rope_dim) {
  const double factor = import->number(prefix + "factor");
  const double low_factor = import->number_or(prefix + "low_freq_factor", 1.0);
  const double high_factor = import->number_or(prefix + "high_freq_factor", 4.0);
  const double old_context = import->number_or(prefix + "original_max_position_embeddings", 8192);
  std::vector<float> divisors;
  for (int64_t i = 0; i < rope_dim / 2; ++i) {
    const double exponent = 2.0 * static_cast<double>(i) / static_cast<double>(rope_dim);
    const double wave_len = 2 * std::numbers::pi * std::pow(base, exponent);
    const double kept = std::clamp((old_context / wave_len - low_factor) / (high_factor - low_factor), 0.0, 1.0);
    divisors.push_back(static_cast<float>(1.0 / ((1.0 - kept) / factor + kept)));
  }
  return divisors;
}

std::vector<float> numbers_of(HfImport* import, const std::string& key) {
  std::vector<float> numbers;
  while (numbers.size() < kMaxHfHeadDim && import->has(fmt::format("{}.{}", key, numbers.size()))) {
    numbers.push_back(static_cast<float>(import->number(fmt::format("{}.{}", key, numbers.size()))));
  }
  if (numbers.empty()) import->fail_in_key(key, "need numbers");
  return numbers;
}

/// Phi 3's scaling: two sets of factors, and queries and keys grow with the context.
void import_longrope(HfImport* import, const std::string& prefix) {
  import->vector("rope_factors_short.weight", numbers_of(import, prefix + "short_factor"));
  import->vector("rope_factors_long.weight", numbers_of(import, prefix + "long_factor"));
  const std::string key =
      import->first_of({"original_max_position_embeddings", prefix + "original_max_position_embeddings"});
  const int64_t old_len = import->integer(key.empty() ? "original_max_position_embeddings" : key);
  const auto context_len = static_cast<double>(import->integer("max_position_embeddings"));
  if (old_len < 2) return import->fail_in_key(key, "is below 2");
  import->set_text("rope.scaling.type", "longrope");
  import->set_integer("rope.scaling.original_context_length", old_len);
  const double scale = import->number_or(prefix + "factor", context_len / static_cast<double>(old_len));
  const double magnitude = scale > 1 ? std::sqrt(1 + std::log(scale) / std::log(static_cast<double>(old_len))) : 1.0;
  import->set_number("rope.scaling.attn_factor", import->number_or(prefix + "attention_factor", magnitude));
}

void import_yarn(HfImport* import, const std::string& prefix) {
  for (const char* key : {"attention_factor", "mscale", "mscale_all_dim"}) {
    if (import->has(prefix + key)) import->fail_in_key(prefix + key, "a magnitude of its own is not supported");
  }
  import->expect_flag(prefix + "truncate", true);
  const std::string key = prefix + "original_max_position_embeddings";
  const std::string old_key = import->first_of({key, "original_max_position_embeddings", "max_position_embeddings"});
  import->set_integer("rope.scaling.original_context_length", import->integer(old_key.empty() ? key : old_key));
  import->set_number("rope.scaling.yarn_beta_fast", import->number_or(prefix + "beta_fast", 32));
  import->set_number("rope.scaling.yarn_beta_slow", import->number_or(prefix + "beta_slow", 1));
}

void import_rope_scaling(HfImport* import, const std::string& prefix, double base, int64_t rope_dim) {
  const std::string kind_key = import->first_of({prefix + "rope_type", prefix + "type"});
  const std::string kind = kind_key.empty() ? "default" : import->text_or(kind_key, "");
  if (kind == "default") return;
  if (kind == "llama3") return import->vector("rope_freqs.weight", llama3_divisors(import, prefix, base, rope_dim));
  if (kind == "longrope" || kind == "su") return import_longrope(import, prefix);
  import->expect_text(kind_key, {"linear", "yarn"});
  import->set_text("rope.scaling.type", kind);
  import->set_number("rope.scaling.factor", import->number(prefix + "factor"));
  if (kind == "yarn") import_yarn(import, prefix);
}

/// How much of a head is rotated.
int64_t rope_dim_of(HfImport* import, const std::string& prefix, int64_t head_dim) {
  if (import->has("rotary_dim")) return import->integer("rotary_dim");
  const std::string key = import->first_of({prefix + "partial_rotary_factor", "partial_rotary_factor", "rotary_pct"});
  const double part = key.empty() ? 1.0 : import->number(key);
  if (!(part > 0 && part <= 1)) import->fail_in_key(key, "need a number above 0 and up to 1");
  return import->ok() ? static_cast<int64_t>(static_cast<double>(head_dim) * part) : 0;
}

void import_rope(HfImport* import, int64_t head_dim, const UsualUses& uses) {
  // Newer configurations have everything in rope_parameters, older ones the base beside rope_scaling, if at all.
  for (const char* key : {"rope_scaling", "rope_parameters"}) import->expect_object_or_null(key);
  std::string prefix = "rope_scaling.";
  const std::string local = "rope_parameters.sliding_attention.";
  for (const std::string newer : {"rope_parameters.", "rope_parameters.full_attention."}) {
    if (!import->first_of({newer + "rope_theta", newer + "rope_type"}).empty()) prefix = newer;
  }
  const std::string base_key = import->first_of({prefix + "rope_theta", "rope_theta", "rotary_emb_base"});
  const double base = base_key.empty() ? uses.rope_base : import->number(base_key);
  if (!(base > 0)) return import->fail_in_key(base_key, "need a number above 0");
  import->set_number("rope.freq_base", base);
  const int64_t rope_dim = uses.partial_rope ? rope_dim_of(import, prefix, head_dim) : head_dim;
  import->set_integer("rope.dimension_count", rope_dim);
  const std::string local_key = import->first_of({local + "rope_theta", "rope_local_base_freq"});
  if (!local_key.empty()) import->set_number("rope.freq_base_swa", import->number(local_key));
  import->expect_text(local + "rope_type", {"default"});
  import_rope_scaling(import, prefix, base, rope_dim);
}

void import_norm(HfImport* import, const UsualUses& uses) {
  const double eps =
      uses.norm_key.empty() ? uses.norm_eps : import->number_or(std::string(uses.norm_key), uses.norm_eps);
  import->set_number(uses.norm_key == kRmsNormKey ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon",
                     eps);
}

}  // namespace

UsualShape import_usual_shape(HfImport* import, UsualUses uses) {
  const auto integer_of = [&](std::initializer_list<std::string_view> keys) {
    const std::string key = import->first_of(keys);
    return import->integer(key.empty() ? std::string(*keys.begin()) : key);
  };
  UsualShape shape;
  shape.n_layers = integer_of({"num_hidden_layers", "n_layer"});
  shape.d_model = integer_of({"hidden_size", "n_embd"});
  shape.n_heads = integer_of({"num_attention_heads", "n_head"});
  shape.n_kv_heads = uses.kv_heads ? import->integer_or("num_key_value_heads", shape.n_heads) : shape.n_heads;
  const auto expect = [&](const char* key, int64_t value, int64_t max) {
    if (value < 1 || value > max) import->fail_in_key(key, fmt::format("is {}, need 1 to {}", value, max));
  };
  expect("num_hidden_layers", shape.n_layers, kMaxHfLayers);
  expect("hidden_size", shape.d_model, kMaxHfWidth);
  expect("num_attention_heads", shape.n_heads, shape.d_model);
  expect("num_key_value_heads", shape.n_kv_heads, shape.n_heads);
  if (!import->ok()) return {};
  shape.head_dim = import->integer_or("head_dim", shape.d_model / shape.n_heads);
  expect("head_dim", shape.head_dim, kMaxHfHeadDim);
  if (import->ok()) expect("num_attention_heads", shape.n_heads, kMaxHfWidth / shape.head_dim);
  import->set_integer("block_count", shape.n_layers);
  import->set_integer("embedding_length", shape.d_model);
  const std::string d_ff_key = import->first_of({"intermediate_size", "ffn_dim", "n_inner"});
  import->set_integer("feed_forward_length", d_ff_key.empty() ? 4 * shape.d_model : import->integer(d_ff_key));
  import->set_integer("context_length", integer_of({"max_position_embeddings", "n_positions"}));
  import->set_integer("attention.head_count", shape.n_heads);
  import->set_integer("attention.head_count_kv", shape.n_kv_heads);
  if (import->has("head_dim")) {
    import->set_integer("attention.key_length", shape.head_dim);
    import->set_integer("attention.value_length", shape.head_dim);
  }
  import_norm(import, uses);
  if (uses.rope) import_rope(import, shape.head_dim, uses);
  if (uses.window && import->has("sliding_window") && import->flag_or("use_sliding_window", true)) {
    import->set_integer("attention.sliding_window", import->integer("sliding_window"));
  }
  return import->ok() ? shape : UsualShape{};
}

int64_t import_expert_counts(HfImport* import) {
  const std::string key = import->first_of({"num_experts", "num_local_experts"});
  const int64_t n_experts = import->integer(key.empty() ? "num_experts" : key);
  if (n_experts < 1 || n_experts > kMaxHfExperts) {
    import->fail_in_key(key, fmt::format("is {}, need 1 to {}", n_experts, kMaxHfExperts));
  }
  import->set_integer("expert_count", n_experts);
  import->set_integer("expert_used_count", import->integer("num_experts_per_tok"));
  if (import->has("moe_intermediate_size")) {
    import->set_integer("expert_feed_forward_length", import->integer("moe_intermediate_size"));
  }
  return import->ok() ? n_experts : 0;
}

void expect_biases(HfImport* import, const UsualShape& shape, const std::string& flag,
                   std::span<const std::string_view> modules) {
  if (!import->flag_or(flag, false)) return;
  for (int64_t layer = 0; layer < shape.n_layers; ++layer) {
    for (const std::string_view module : modules) {
      const std::string name = fmt::format("model.layers.{}.{}.bias", layer, module);
      if (!import->has_tensor(name)) {
        return import->fail_in_key(flag, fmt::format("is true, but tensor '{}' is missing", name));
      }
    }
  }
}

void import_window_pattern(HfImport* import, int64_t n_layers) {
  std::vector<bool> is_sliding;
  for (int64_t i = 0; i < n_layers && import->has(fmt::format("layer_types.{}", i)); ++i) {
    const std::string key = fmt::format("layer_types.{}", i);
    import->expect_text(key, {"sliding_attention", "full_attention"});
    is_sliding.push_back(import->text_or(key, "") == "sliding_attention");
  }
  if (!is_sliding.empty()) return import->set_flags("attention.sliding_window_pattern", is_sliding);
  if (import->has("sliding_window_pattern")) {
    import->set_integer("attention.sliding_window_pattern", import->integer("sliding_window_pattern"));
  }
}

void import_modules(HfImport* import, const std::string& from, const std::string& to, std::span<const HfName> names,
                    const MakingOf& making) {
  for (const HfName& name : names) {
    const std::string hf_stem = from + std::string(name.hf);
    if (!import->has_tensor(hf_stem + ".weight")) continue;
    import->linear(to + std::string(name.gguf), hf_stem, making ? making(name.gguf) : TensorMaking{});
  }
}

void import_layers(HfImport* import, const UsualShape& shape, const std::string& from, std::span<const HfName> names,
                   const MakingOf& making) {
  for (int64_t layer = 0; layer < shape.n_layers && import->ok(); ++layer) {
    import_modules(import, fmt::format("{}{}.", from, layer), fmt::format("blk.{}.", layer), names, making);
  }
}

void import_head(HfImport* import) {
  if (import->flag_or("tie_word_embeddings", false)) return import->ignore("lm_head.weight");
  constexpr HfName kHead[] = {{"lm_head", "output"}};
  import_modules(import, "", "", kHead);
}

void import_llama_ends(HfImport* import, const MakingOf& making) {
  constexpr HfName kNames[] = {{"embed_tokens", "token_embd"}, {"norm", "output_norm"}};
  import_modules(import, "model.", "", kNames, making);
  import_head(import);
}

void import_expert_layers(HfImport* import, int64_t n_layers, int64_t n_experts, const HfExpertNames& names) {
  const HfName matrices[] = {{names.gate, "ffn_gate_exps"}, {names.up, "ffn_up_exps"}, {names.down, "ffn_down_exps"}};
  for (int64_t layer = 0; layer < n_layers && import->ok(); ++layer) {
    const std::string from = fmt::format("model.layers.{}.{}.", layer, names.block);
    const std::string to = fmt::format("blk.{}.", layer);
    import->tensor(to + "ffn_gate_inp.weight", from + "gate.weight");
    for (const HfName& name : matrices) {
      std::vector<std::string> hf_names;
      for (int64_t i = 0; i < n_experts; ++i) {
        hf_names.push_back(fmt::format("{}experts.{}.{}.weight", from, i, name.hf));
      }
      import->stack(fmt::format("{}{}.weight", to, name.gguf), hf_names);
    }
  }
}

std::vector<int32_t> neighbouring_pairs(int64_t n_heads, int64_t head_dim) {
  std::vector<int32_t> rows;
  for (int64_t head = 0; head < n_heads; ++head) {
    for (int64_t i = 0; i < head_dim; ++i) {
      rows.push_back(static_cast<int32_t>(head * head_dim + i / 2 + i % 2 * (head_dim / 2)));
    }
  }
  return rows;
}

std::vector<int32_t> row_range(int64_t begin, int64_t n) {
  std::vector<int32_t> rows(static_cast<size_t>(n));
  std::iota(rows.begin(), rows.end(), static_cast<int32_t>(begin));
  return rows;
}

}  // namespace bass
