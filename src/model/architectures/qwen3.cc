// Llama with norms of each head of q and k, and rope on halves.
#include "base/check.h"
#include "model/architecture.h"
#include "model/decoder_config.h"
#include "model/hf_usual.h"

namespace bass {
namespace {

Result<ModelConfig> read_config(const GgufFile& gguf) {
  ModelConfig config{.rope_pairs = RopePairs::kHalves, .qk_norm = QkNorm::kEachHead};
  BASS_RETURN_IF_ERROR(read_decoder_config(gguf, "qwen3", &config));
  return config;
}

void import_qwen3(HfImport* import) {
  import->expect_text("hidden_act", {"silu", "swish"});
  import->expect_flag("use_sliding_window", false);
  const UsualShape shape = import_usual_shape(import, {});
  expect_biases(import, shape, "attention_bias", kAttentionModules);
  import_llama_ends(import);
  import_layers(import, shape, "model.layers.", kLlamaLayerNames);
}

}  // namespace

const Architecture kQwen3Architecture{"qwen3", read_config, {{"qwen3"}, import_qwen3}};

}  // namespace bass
