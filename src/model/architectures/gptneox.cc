// LayerNorm, rope on halves of a part of each head, biases everywhere, GELU; blocks in parallel or not: GPT-NeoX,
// Pythia.
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
                     .activation = Activation::kGelu,
                     .is_gated = false};
  BASS_RETURN_IF_ERROR(read_decoder_config(gguf, "gptneox", &config));
  BASS_ASSIGN_OR_RETURN(const bool is_parallel, gguf.get_bool_or("gptneox.use_parallel_residual", true));
  if (is_parallel) config.block_order = BlockOrder::kParallel;
  return config;
}

constexpr HfName kHfEnds[] = {
    {"gpt_neox.embed_in", "token_embd"}, {"gpt_neox.final_layer_norm", "output_norm"}, {"embed_out", "output"}};
constexpr HfName kHfNames[] = {
    {"input_layernorm", "attn_norm"},   {"attention.query_key_value", "attn_qkv"},
    {"attention.dense", "attn_output"}, {"post_attention_layernorm", "ffn_norm"},
    {"mlp.dense_h_to_4h", "ffn_up"},    {"mlp.dense_4h_to_h", "ffn_down"},
};

/// Checkpoints have q, k and v of a head together, GGUF files those of all heads.
std::vector<int32_t> rows_of_qkv(const UsualShape& shape) {
  std::vector<int32_t> rows;
  for (int64_t part = 0; part < 3; ++part) {
    for (int64_t head = 0; head < shape.n_heads; ++head) {
      const std::vector<int32_t> some = row_range((3 * head + part) * shape.head_dim, shape.head_dim);
      rows.insert(rows.end(), some.begin(), some.end());
    }
  }
  return rows;
}

void import_gptneox(HfImport* import) {
  import->expect_text("hidden_act", {"gelu"});
  const UsualShape shape = import_usual_shape(
      import, {.partial_rope = true, .kv_heads = false, .norm_key = "layer_norm_eps", .norm_eps = 1e-5});
  import->set_flag("use_parallel_residual", import->flag_or("use_parallel_residual", true));
  import_modules(import, "", "", kHfEnds);
  import_head(import);
  import_layers(import, shape, "gpt_neox.layers.", kHfNames, [&](std::string_view name) -> TensorMaking {
    if (name == "attn_qkv") return {.rows = rows_of_qkv(shape)};
    return {};
  });
}

}  // namespace

const Architecture kGptNeoXArchitecture{"gptneox", read_config, {{"gpt_neox"}, import_gptneox}};

}  // namespace bass
