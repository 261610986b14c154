// LayerNorm, learned positions, biases everywhere, GELU.
#include "base/check.h"
#include "model/architecture.h"
#include "model/decoder_config.h"

namespace bass {
namespace {

Result<ModelConfig> read_config(const GgufFile& gguf) {
  ModelConfig config{.norm = NormType::kLayer,
                     .has_learned_positions = true,
                     .ropes = {},
                     .has_qkv_bias = true,
                     .has_attention_output_bias = true,
                     .has_feed_forward_bias = true,
                     .activation = Activation::kGeluTanh,
                     .is_gated = false};
  BASS_RETURN_IF_ERROR(read_decoder_config(gguf, "gpt2", &config));
  return config;
}

}  // namespace

const Architecture kGpt2Architecture{"gpt2", read_config};

}  // namespace bass
