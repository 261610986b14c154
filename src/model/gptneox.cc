// LayerNorm, rope on halves of a part of each head, biases everywhere, GELU; blocks in parallel or not: GPT-NeoX,
// Pythia.
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
                     .activation = Activation::kGelu,
                     .is_gated = false};
  BASS_RETURN_IF_ERROR(read_decoder_config(gguf, "gptneox", &config));
  BASS_ASSIGN_OR_RETURN(const bool is_parallel, gguf.get_bool_or("gptneox.use_parallel_residual", true));
  if (is_parallel) config.block_order = BlockOrder::kParallel;
  return config;
}

}  // namespace

const Architecture kGptNeoXArchitecture{"gptneox", read_config};

}  // namespace bass
