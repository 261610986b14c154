// Llama with norms of each head of q and k, and rope on halves.
#include "base/check.h"
#include "model/architecture.h"
#include "model/decoder_config.h"

namespace bass {
namespace {

Result<ModelConfig> read_config(const GgufFile& gguf) {
  ModelConfig config{.rope_pairs = RopePairs::kHalves, .qk_norm = QkNorm::kEachHead};
  BASS_RETURN_IF_ERROR(read_decoder_config(gguf, "qwen3", &config));
  return config;
}

}  // namespace

const Architecture kQwen3Architecture{"qwen3", read_config};

}  // namespace bass
