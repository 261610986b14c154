// Llama with biases of q, k and v, and rope on halves: Qwen 1.5, 2 and 2.5.
#include "base/check.h"
#include "model/architecture.h"
#include "model/decoder_config.h"
#include "model/hf_usual.h"

namespace bass {
namespace {

Result<ModelConfig> read_config(const GgufFile& gguf) {
  ModelConfig config{.rope_pairs = RopePairs::kHalves, .has_qkv_bias = true};
  BASS_RETURN_IF_ERROR(read_decoder_config(gguf, "qwen2", &config));
  return config;
}

void import_qwen2(HfImport* import) {
  import->expect_text("hidden_act", {"silu", "swish"});
  import->expect_flag("use_sliding_window", false);
  const UsualShape shape = import_usual_shape(import, {});
  import_llama_ends(import);
  import_layers(import, shape, "model.layers.", kLlamaLayerNames);
}

}  // namespace

const Architecture kQwen2Architecture{"qwen2", read_config, {{"qwen2"}, import_qwen2}};

}  // namespace bass
