// LayerNorm, rope on halves, grouped-query attention with a window, biases everywhere, GELU.
#include "base/check.h"
#include "model/architecture.h"
#include "model/decoder_config.h"

namespace bass {
namespace {

Result<ModelConfig> read_config(const GgufFile& gguf) {
  ModelConfig config{.norm = NormType::kLayer,
                     .rope_pairs = RopePairs::kHalves,
                     .has_qkv_bias = true,
                     .has_attention_output_bias = true,
                     .has_feed_forward_bias = true,
                     .activation = Activation::kGeluTanh,
                     .is_gated = false};
  BASS_RETURN_IF_ERROR(read_decoder_config(gguf, "starcoder2", &config));
  return config;
}

}  // namespace

const Architecture kStarCoder2Architecture{"starcoder2", read_config};

}  // namespace bass
