// Llama with q, k and v, and gate and up, as one matrix each, rope on halves, with two sets of factors (longrope).
#include "base/check.h"
#include "model/architecture.h"
#include "model/decoder_config.h"
#include "model/hf_usual.h"

namespace bass {
namespace {

Result<ModelConfig> read_config(const GgufFile& gguf) {
  ModelConfig config{.rope_pairs = RopePairs::kHalves};
  BASS_RETURN_IF_ERROR(read_decoder_config(gguf, "phi3", &config));
  return config;
}

constexpr HfName kHfNames[] = {
    {"input_layernorm", "attn_norm"},         {"self_attn.qkv_proj", "attn_qkv"}, {"self_attn.o_proj", "attn_output"},
    {"post_attention_layernorm", "ffn_norm"}, {"mlp.gate_up_proj", "ffn_up"},     {"mlp.down_proj", "ffn_down"},
};

void import_phi3(HfImport* import) {
  import->expect_text("hidden_act", {"silu", "swish"});
  const UsualShape shape = import_usual_shape(import, {.partial_rope = true, .window = true, .norm_eps = 1e-5});
  import_llama_ends(import);
  import_layers(import, shape, "model.layers.", kHfNames);
}

}  // namespace

const Architecture kPhi3Architecture{"phi3", read_config, {{"phi3"}, import_phi3}};

}  // namespace bass
