// LayerNorm before each block, learned positions, biases everywhere, ReLU. Other programs have no GGUF of it: keys and
// names are those of a gpt2, position_embd begins with position 0 (checkpoints have two rows in front of it), q, k and
// v are apart. OPT-350m, with norms behind its blocks and a narrower embedding, lacks tensors that are looked for.
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
                     .activation = Activation::kRelu,
                     .is_gated = false};
  BASS_RETURN_IF_ERROR(read_decoder_config(gguf, "opt", &config));
  return config;
}

}  // namespace

const Architecture kOptArchitecture{"opt", read_config};

}  // namespace bass
