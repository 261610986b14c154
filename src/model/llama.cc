// RMSNorm, rope on neighbouring pairs, grouped-query attention, SwiGLU: Llama 2 and 3, Mistral (with its window),
// Mixtral (with its experts), TinyLlama, SmolLM 1 and 2.
#include "base/check.h"
#include "model/architecture.h"
#include "model/decoder_config.h"

namespace bass {
namespace {

Result<ModelConfig> read_config(const GgufFile& gguf) {
  ModelConfig config{.expert_weights_sum_to_one = true};
  BASS_RETURN_IF_ERROR(read_decoder_config(gguf, "llama", &config));
  return config;
}

}  // namespace

const Architecture kLlamaArchitecture{"llama", read_config};

}  // namespace bass
