// Norms over all heads of q and of k, rope on halves, experts weighed by their probabilities as they are.
#include "base/check.h"
#include "model/architecture.h"
#include "model/decoder_config.h"

namespace bass {
namespace {

Result<ModelConfig> read_config(const GgufFile& gguf) {
  ModelConfig config{.rope_pairs = RopePairs::kHalves, .qk_norm = QkNorm::kAllHeads};
  BASS_RETURN_IF_ERROR(read_decoder_config(gguf, "olmoe", &config));
  if (config.n_experts == 0) return invalid_file(gguf.path() + ": key 'olmoe.expert_count' is missing or 0");
  if (gguf.has("olmoe.attention.clamp_kqv")) {
    return invalid_file(gguf.path() + ": key 'olmoe.attention.clamp_kqv': clipped q, k and v are not supported");
  }
  return config;
}

}  // namespace

const Architecture kOlMoeArchitecture{"olmoe", read_config};

}  // namespace bass
