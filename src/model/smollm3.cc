// Llama, but every fourth layer does not know positions (NoPE).
#include "base/check.h"
#include "model/architecture.h"
#include "model/decoder_config.h"

namespace bass {
namespace {

Result<ModelConfig> read_config(const GgufFile& gguf) {
  ModelConfig config;
  BASS_RETURN_IF_ERROR(read_decoder_config(gguf, "smollm3", &config));
  constexpr size_t kPeriod = 4;
  for (size_t i = kPeriod - 1; i < config.layers.size(); i += kPeriod) config.layers[i].rope = LayerConfig::kNoRope;
  return config;
}

}  // namespace

const Architecture kSmolLm3Architecture{"smollm3", read_config};

}  // namespace bass
