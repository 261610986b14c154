// LayerNorm, rope on halves of a part of each head, SwiGLU, biases of q, k and v or not; blocks in parallel or not.
#include "base/check.h"
#include "model/architecture.h"
#include "model/decoder_config.h"
#include "model/hf_usual.h"

namespace bass {
namespace {

Result<ModelConfig> read_config(const GgufFile& gguf) {
  ModelConfig config{.norm = NormType::kLayer, .rope_pairs = RopePairs::kHalves};
  BASS_RETURN_IF_ERROR(read_decoder_config(gguf, "stablelm", &config));
  // Files say "use_parallel_residual" also where it is not so; blocks in parallel have one norm.
  const bool is_parallel = gguf.find_tensor("blk.0.ffn_norm.weight") == nullptr;
  if (is_parallel) config.block_order = BlockOrder::kParallelOneNorm;
  return config;
}

void import_stablelm(HfImport* import) {
  import->expect_text("hidden_act", {"silu", "swish"});
  import->expect_flag("qk_layernorm", false);
  const UsualShape shape =
      import_usual_shape(import, {.partial_rope = true, .norm_key = "layer_norm_eps", .norm_eps = 1e-5});
  import->set_flag("use_parallel_residual", import->flag_or("use_parallel_residual", false));
  expect_biases(import, shape, "use_qkv_bias", kQkvModules);
  import_llama_ends(import);
  import_layers(import, shape, "model.layers.", kLlamaLayerNames);
}

}  // namespace

const Architecture kStableLmArchitecture{"stablelm", read_config, {{"stablelm"}, import_stablelm}};

}  // namespace bass
