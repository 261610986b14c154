// A gptj. Other programs have no GGUF of it: keys and names are those of a gptj; the order in which checkpoints
// interleave q, v and k is undone.
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
  BASS_RETURN_IF_ERROR(read_decoder_config(gguf, "codegen", &config));
  return config;
}

}  // namespace

const Architecture kCodeGenArchitecture{"codegen", read_config};

}  // namespace bass
