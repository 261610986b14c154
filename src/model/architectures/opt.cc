// LayerNorm before each block, learned positions, biases everywhere, ReLU. Other programs have no GGUF of it: keys and
// names are those of a gpt2, position_embd begins with position 0 (checkpoints have two rows in front of it), q, k and
// v are apart. OPT-350m, with norms behind its blocks and a narrower embedding, lacks tensors that are looked for.
#include <algorithm>

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
                     .activation = Activation::kRelu,
                     .is_gated = false};
  BASS_RETURN_IF_ERROR(read_decoder_config(gguf, "opt", &config));
  return config;
}

constexpr HfName kHfEnds[] = {{"embed_tokens", "token_embd"}, {"final_layer_norm", "output_norm"}};
constexpr HfName kHfNames[] = {
    {"self_attn_layer_norm", "attn_norm"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.out_proj", "attn_output"},
    {"final_layer_norm", "ffn_norm"},
    {"fc1", "ffn_up"},
    {"fc2", "ffn_down"},
};

void import_opt(HfImport* import) {
  import->expect_text("activation_function", {"relu"});
  import->expect_flag("do_layer_norm_before", true);
  const UsualShape shape =
      import_usual_shape(import, {.rope = false, .kv_heads = false, .norm_key = "", .norm_eps = 1e-5});
  const std::string top = import->has_tensor("decoder.embed_tokens.weight") ? "decoder." : "model.decoder.";
  import_modules(import, top, "", kHfEnds);
  import_head(import);
  // Two rows in front of position 0.
  const std::string positions = top + "embed_positions.weight";
  const std::vector<int64_t> table = import->shape_of(positions);
  const int64_t n_positions = table.empty() ? 0 : std::clamp<int64_t>(table[0] - 2, 0, kMaxHfWidth);
  import->tensor("position_embd.weight", positions, {.rows = row_range(2, n_positions)});
  import_layers(import, shape, top + "layers.", kHfNames);
}

}  // namespace

const Architecture kOptArchitecture{"opt", read_config, {{"opt"}, import_opt}};

}  // namespace bass
