// LayerNorm, rope on halves, grouped-query attention with a window, biases everywhere, GELU.
#include "base/check.h"
#include "model/architecture.h"
#include "model/decoder_config.h"
#include "model/hf_usual.h"

namespace bass {
namespace {

Result<ModelConfig> read_config(const GgufFile& gguf) {
  ModelConfig config{.norm = NormType::kLayer,
                     .rope_pairs = RopePairs::kHalves,
                     .has_qkv_bias = true,
                     .has_attention_output_bias = true,
                     .has_feed_forward_bias = true,
                     .activation = Activation::kGeluTanh,
                     .is_gated = false};
  BASS_RETURN_IF_ERROR(read_decoder_config(gguf, "starcoder2", &config));
  return config;
}

constexpr HfName kHfNames[] = {
    {"input_layernorm", "attn_norm"}, {"self_attn.q_proj", "attn_q"},      {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},   {"self_attn.o_proj", "attn_output"}, {"post_attention_layernorm", "ffn_norm"},
    {"mlp.c_fc", "ffn_up"},           {"mlp.c_proj", "ffn_down"},
};

void import_starcoder2(HfImport* import) {
  import->expect_text("hidden_act", {"gelu_pytorch_tanh"});
  const UsualShape shape = import_usual_shape(import, {.window = true, .norm_key = "norm_epsilon", .norm_eps = 1e-5});
  import_llama_ends(import);
  import_layers(import, shape, "model.layers.", kHfNames);
}

}  // namespace

const Architecture kStarCoder2Architecture{"starcoder2", read_config, {{"starcoder2"}, import_starcoder2}};

}  // namespace bass
