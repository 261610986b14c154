// One LayerNorm for attention and feed-forward in parallel, rope on neighbouring pairs of a part of each head, biases
// of the feed-forward block and the head.
#include "base/check.h"
#include "model/architecture.h"
#include "model/decoder_config.h"
#include "model/hf_usual.h"

namespace bass {
namespace {

Result<ModelConfig> read_config(const GgufFile& gguf) {
  ModelConfig config{.norm = NormType::kLayer,
                     .block_order = BlockOrder::kParallelOneNorm,
                     .has_feed_forward_bias = true,
                     .activation = Activation::kGeluTanh,
                     .is_gated = false};
  BASS_RETURN_IF_ERROR(read_decoder_config(gguf, "gptj", &config));
  return config;
}

constexpr HfName kHfEnds[] = {{"wte", "token_embd"}, {"ln_f", "output_norm"}};
constexpr HfName kHfNames[] = {
    {"ln_1", "attn_norm"},      {"attn.q_proj", "attn_q"},        {"attn.k_proj", "attn_k"},
    {"attn.v_proj", "attn_v"},  {"attn.out_proj", "attn_output"}, {"mlp.fc_in", "ffn_up"},
    {"mlp.fc_out", "ffn_down"},
};

void import_gptj(HfImport* import) {
  import->expect_text("activation_function", {"gelu_new"});
  const UsualShape shape = import_usual_shape(
      import, {.partial_rope = true, .kv_heads = false, .norm_key = "layer_norm_epsilon", .norm_eps = 1e-5});
  import_modules(import, "transformer.", "", kHfEnds);
  import_head(import);
  import_layers(import, shape, "transformer.h.", kHfNames);
}

}  // namespace

const Architecture kGptJArchitecture{"gptj", read_config, {{"gptj"}, import_gptj}};

}  // namespace bass
