// LayerNorm, learned positions, biases everywhere, GELU.
#include "base/check.h"
#include "model/architecture.h"
#include "model/decoder_config.h"
#include "model/hf_usual.h"

namespace bass {
namespace {

Result<ModelConfig> read_config(const GgufFile& gguf) {
  ModelConfig config{.norm = NormType::kLayer,
                     .has_learned_positions = true,
                     .ropes = {},
                     .has_qkv_bias = true,
                     .has_attention_output_bias = true,
                     .has_feed_forward_bias = true,
                     .activation = Activation::kGeluTanh,
                     .is_gated = false};
  BASS_RETURN_IF_ERROR(read_decoder_config(gguf, "gpt2", &config));
  return config;
}

constexpr HfName kHfEnds[] = {{"wte", "token_embd"}, {"wpe", "position_embd"}, {"ln_f", "output_norm"}};
constexpr HfName kHfNames[] = {
    {"ln_1", "attn_norm"}, {"attn.c_attn", "attn_qkv"}, {"attn.c_proj", "attn_output"},
    {"ln_2", "ffn_norm"},  {"mlp.c_fc", "ffn_up"},      {"mlp.c_proj", "ffn_down"},
};

void import_gpt2(HfImport* import) {
  import->expect_text("activation_function", {"gelu_new", "gelu_pytorch_tanh"});
  import->expect_flag("scale_attn_weights", true);
  import->expect_flag("scale_attn_by_inverse_layer_idx", false);
  import->expect_flag("reorder_and_upcast_attn", false);
  const UsualShape shape = import_usual_shape(
      import, {.rope = false, .kv_heads = false, .norm_key = "layer_norm_epsilon", .norm_eps = 1e-5});
  const std::string top = import->has_tensor("wte.weight") ? "" : "transformer.";  // the first files have no prefix
  import_modules(import, top, "", kHfEnds);
  import_head(import);
  import_layers(import, shape, top + "h.", kHfNames,
                [](std::string_view name) -> TensorMaking { return {.is_transposed = !name.ends_with("norm")}; });
}

}  // namespace

const Architecture kGpt2Architecture{"gpt2", read_config, {{"gpt2"}, import_gpt2}};

}  // namespace bass
