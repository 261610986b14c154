// RMSNorm, rope on neighbouring pairs, grouped-query attention, SwiGLU: Llama 2 and 3, Mistral (with its window),
// Mixtral (with its experts), TinyLlama, SmolLM 1 and 2.
#include "base/check.h"
#include "model/architecture.h"
#include "model/decoder_config.h"
#include "model/hf_usual.h"

namespace bass {
namespace {

Result<ModelConfig> read_config(const GgufFile& gguf) {
  ModelConfig config{.expert_weights_sum_to_one = true};
  BASS_RETURN_IF_ERROR(read_decoder_config(gguf, "llama", &config));
  return config;
}

void import_llama(HfImport* import) {
  import->expect_text("hidden_act", {"silu", "swish"});
  const std::string type = import->text_or("model_type", "");
  const UsualUses mixtral{.rope_base = 1e6, .window = true, .norm_eps = 1e-5}, others{.window = type == "mistral"};
  const UsualShape shape = import_usual_shape(import, type == "mixtral" ? mixtral : others);
  if (type == "llama") {
    expect_biases(import, shape, "attention_bias", kAttentionModules);
    expect_biases(import, shape, "mlp_bias", kFeedForwardModules);
  }
  if (type == "mixtral") {
    const int64_t n_experts = import_expert_counts(import);
    import_expert_layers(import, shape.n_layers, n_experts, {"block_sparse_moe", "w1", "w3", "w2"});
  }
  import_llama_ends(import);
  import_layers(import, shape, "model.layers.", kLlamaLayerNames, [&](std::string_view name) -> TensorMaking {
    if (name == "attn_q") return {.rows = neighbouring_pairs(shape.n_heads, shape.head_dim)};
    if (name == "attn_k") return {.rows = neighbouring_pairs(shape.n_kv_heads, shape.head_dim)};
    return {};
  });
}

}  // namespace

const Architecture kLlamaArchitecture{"llama", read_config, {{"llama", "mistral", "mixtral"}, import_llama}};

}  // namespace bass
