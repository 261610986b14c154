// Llama with q, k and v, and gate and up, as one matrix each, rope on halves, with two sets of factors (longrope).
#include "base/check.h"
#include "model/architecture.h"
#include "model/decoder_config.h"

namespace bass {
namespace {

Result<ModelConfig> read_config(const GgufFile& gguf) {
  ModelConfig config{.rope_pairs = RopePairs::kHalves};
  BASS_RETURN_IF_ERROR(read_decoder_config(gguf, "phi3", &config));
  return config;
}

}  // namespace

const Architecture kPhi3Architecture{"phi3", read_config};

}  // namespace bass
