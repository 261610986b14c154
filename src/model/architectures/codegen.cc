// A gptj. Other programs have no GGUF of it: keys and names are those of a gptj; the order in which checkpoints
// interleave q, v and k is undone.
#include <fmt/format.h>

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
  BASS_RETURN_IF_ERROR(read_decoder_config(gguf, "codegen", &config));
  return config;
}

constexpr HfName kHfEnds[] = {{"wte", "token_embd"}, {"ln_f", "output_norm"}};
constexpr HfName kHfNames[] = {
    {"ln_1", "attn_norm"},
    {"attn.out_proj", "attn_output"},
    {"mlp.fc_in", "ffn_up"},
    {"mlp.fc_out", "ffn_down"},
};

/// Checkpoints have q, v and k in four parts, a quarter of the heads each. part: 0, 1, 2 of q, v, k.
std::vector<int32_t> rows_of_part(const UsualShape& shape, int64_t part) {
  constexpr int64_t kParts = 4;
  const int64_t part_len = shape.n_heads * shape.head_dim / kParts;
  std::vector<int32_t> rows;
  for (int64_t i = 0; i < kParts; ++i) {
    const std::vector<int32_t> some = row_range((3 * i + part) * part_len, part_len);
    rows.insert(rows.end(), some.begin(), some.end());
  }
  return rows;
}

void import_codegen(HfImport* import) {
  import->expect_text("activation_function", {"gelu_new"});
  const UsualShape shape = import_usual_shape(
      import, {.partial_rope = true, .kv_heads = false, .norm_key = "layer_norm_epsilon", .norm_eps = 1e-5});
  import_modules(import, "transformer.", "", kHfEnds);
  import_head(import);
  import_layers(import, shape, "transformer.h.", kHfNames);
  for (int64_t layer = 0; layer < shape.n_layers && import->ok(); ++layer) {
    const std::string qkv = fmt::format("transformer.h.{}.attn.qkv_proj.weight", layer);
    import->tensor(fmt::format("blk.{}.attn_q.weight", layer), qkv, {.rows = rows_of_part(shape, 0)});
    import->tensor(fmt::format("blk.{}.attn_v.weight", layer), qkv, {.rows = rows_of_part(shape, 1)});
    import->tensor(fmt::format("blk.{}.attn_k.weight", layer), qkv, {.rows = rows_of_part(shape, 2)});
  }
}

}  // namespace

const Architecture kCodeGenArchitecture{"codegen", read_config, {{"codegen"}, import_codegen}};

}  // namespace bass
