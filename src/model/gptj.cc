// One LayerNorm for attention and feed-forward in parallel, rope on neighbouring pairs of a part of each head, biases
// of the feed-forward block and the head.
#include "base/check.h"
#include "model/architecture.h"
#include "model/decoder_config.h"

namespace bass {
namespace {

Result<ModelConfig> read_config(const GgufFile& gguf) {
  ModelConfig config{.norm = NormType::kLayer,
                     .block_order = BlockOrder::kParallelOneNorm,
                     .has_feed_forward_bias = true,
                     .activation = Activation::kGeluTanh,
                     .is_gated = false};
  BASS_RETURN_IF_ERROR(read_decoder_config(gguf, "gptj", &config));
  return config;
}

}  // namespace

const Architecture kGptJArchitecture{"gptj", read_config};

}  // namespace bass
