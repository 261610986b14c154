// Gemma with norms behind its blocks, soft caps of scores and logits, and a sliding window in every other layer.
#include <cmath>

#include "base/check.h"
#include "model/architecture.h"
#include "model/decoder_config.h"
#include "model/hf_usual.h"
#include "model/tensor_lookup.h"

namespace bass {
namespace {

Result<ModelConfig> read_config(const GgufFile& gguf) {
  ModelConfig config{.has_post_norms = true, .rope_pairs = RopePairs::kHalves, .activation = Activation::kGeluTanh};
  BASS_RETURN_IF_ERROR(read_decoder_config(gguf, "gemma2", &config));
  config.embedding_scale = std::sqrt(static_cast<float>(config.d_model));
  // Files do not tell the scale. The model of 46 layers has that of its width, others that of their heads.
  constexpr int kLayersOf27B = 46;
  if (config.attention_scale == 0 && config.n_layers == kLayersOf27B) {
    config.attention_scale = 1.0f / std::sqrt(static_cast<float>(config.d_model / config.n_heads));
  }
  BASS_ASSIGN_OR_RETURN(config.attention_cap, read_positive_float_or(gguf, "gemma2.attn_logit_softcapping", 50.0f));
  BASS_ASSIGN_OR_RETURN(config.logit_cap, read_positive_float_or(gguf, "gemma2.final_logit_softcapping", 30.0f));
  BASS_RETURN_IF_ERROR(read_window_pattern(gguf, 2, &config));
  return config;
}

constexpr HfName kHfNames[] = {
    {"input_layernorm", "attn_norm"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"},
    {"post_attention_layernorm", "post_attention_norm"},
    {"pre_feedforward_layernorm", "ffn_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
};

/// Checkpoints have norms' weights less 1.
TensorMaking making_of(std::string_view name) { return {.addend = name.ends_with("norm") ? 1.0F : 0.0F}; }

void import_gemma2(HfImport* import) {
  import->expect_text("hidden_activation", {"gelu_pytorch_tanh"});
  const UsualShape shape = import_usual_shape(import);
  import->set_number("attn_logit_softcapping", import->number_or("attn_logit_softcapping", 50.0));
  import->set_number("final_logit_softcapping", import->number_or("final_logit_softcapping", 30.0));
  import_window_pattern(import, shape.n_layers);
  const double scale_base = import->number_or("query_pre_attn_scalar", 256);
  if (!(scale_base > 0)) import->fail_in_key("query_pre_attn_scalar", "need a number above 0");
  import->set_number("attention.scale", 1.0 / std::sqrt(scale_base));
  import_llama_ends(import, making_of);
  import_layers(import, shape, "model.layers.", kHfNames, making_of);
}

}  // namespace

const Architecture kGemma2Architecture{"gemma2", read_config, {{"gemma2"}, import_gemma2}};

}  // namespace bass
