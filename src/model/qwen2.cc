// Llama with biases of q, k and v, and rope on halves: Qwen 1.5, 2 and 2.5.
#include "base/check.h"
#include "model/architecture.h"
#include "model/decoder_config.h"

namespace bass {
namespace {

Result<ModelConfig> read_config(const GgufFile& gguf) {
  ModelConfig config{.rope_pairs = RopePairs::kHalves, .has_qkv_bias = true};
  BASS_RETURN_IF_ERROR(read_decoder_config(gguf, "qwen2", &config));
  return config;
}

}  // namespace

const Architecture kQwen2Architecture{"qwen2", read_config};

}  // namespace bass
