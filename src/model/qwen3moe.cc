// Qwen 3 with experts, whose weights are normalised.
#include "base/check.h"
#include "model/architecture.h"
#include "model/decoder_config.h"

namespace bass {
namespace {

Result<ModelConfig> read_config(const GgufFile& gguf) {
  ModelConfig config{.rope_pairs = RopePairs::kHalves, .qk_norm = QkNorm::kEachHead, .expert_weights_sum_to_one = true};
  BASS_RETURN_IF_ERROR(read_decoder_config(gguf, "qwen3moe", &config));
  if (config.n_experts == 0) return invalid_file(gguf.path() + ": key 'qwen3moe.expert_count' is missing or 0");
  return config;
}

}  // namespace

const Architecture kQwen3MoeArchitecture{"qwen3moe", read_config};

}  // namespace bass
