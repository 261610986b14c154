// RMSNorm (files hold its weight + 1), rope on halves, gated GELU, embeddings scaled by sqrt(d_model).
#include "model/gemma.h"

#include <cmath>

#include "base/check.h"
#include "model/architecture.h"
#include "model/decoder_config.h"

namespace bass {
namespace {

Result<ModelConfig> read_config(const GgufFile& gguf) {
  ModelConfig config{.rope_pairs = RopePairs::kHalves, .activation = Activation::kGeluTanh};
  BASS_RETURN_IF_ERROR(read_decoder_config(gguf, "gemma", &config));
  set_gemma_embedding_scale(&config);
  return config;
}

void import_gemma(HfImport* import) {
  import->expect_text("hidden_act", {"gelu_pytorch_tanh", "gelu"});  // older configurations say gelu and mean the other
  const UsualShape shape = import_usual_shape(import, {});
  expect_biases(import, shape, "attention_bias", kAttentionModules);
  import_llama_ends(import, gemma_making);
  import_layers(import, shape, "model.layers.", kLlamaLayerNames, gemma_making);
}

}  // namespace

void set_gemma_embedding_scale(ModelConfig* config) {
  config->embedding_scale = std::sqrt(static_cast<float>(config->d_model));
}

void set_gemma_score_scale(int n_layers_of_largest, ModelConfig* config) {
  if (config->attention_scale != 0 || config->n_layers != n_layers_of_largest) return;
  const int width = config->d_model / config->n_heads;
  config->attention_scale = 1.0f / std::sqrt(static_cast<float>(width));
}

TensorMaking gemma_making(std::string_view gguf_name) { return {.addend = gguf_name.ends_with("norm") ? 1.0F : 0.0F}; }

void import_gemma_with_post_norms(HfImport* import, const UsualShape& shape) {
  static constexpr HfName kNames[] = {
      {"input_layernorm", "attn_norm"},
      {"self_attn.q_proj", "attn_q"},
      {"self_attn.k_proj", "attn_k"},
      {"self_attn.v_proj", "attn_v"},
      {"self_attn.o_proj", "attn_output"},
      {"self_attn.q_norm", "attn_q_norm"},
      {"self_attn.k_norm", "attn_k_norm"},
      {"post_attention_layernorm", "post_attention_norm"},
      {"pre_feedforward_layernorm", "ffn_norm"},
      {"post_feedforward_layernorm", "post_ffw_norm"},
      {"mlp.gate_proj", "ffn_gate"},
      {"mlp.up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"},
  };
  import->expect_text("hidden_activation", {"gelu_pytorch_tanh"});
  import_window_pattern(import, shape.n_layers);
  expect_biases(import, shape, "attention_bias", kAttentionModules);
  const double scale_base = import->number_or("query_pre_attn_scalar", 256);
  if (!(scale_base > 0)) import->fail_in_key("query_pre_attn_scalar", "need a number above 0");
  import->set_number("attention.scale", 1.0 / std::sqrt(scale_base));
  import_llama_ends(import, gemma_making);
  import_layers(import, shape, "model.layers.", kNames, gemma_making);
}

const Architecture kGemmaArchitecture{"gemma", read_config, {{"gemma"}, import_gemma}};

}  // namespace bass
