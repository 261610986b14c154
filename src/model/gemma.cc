// RMSNorm (files hold its weight + 1), rope on halves, gated GELU, embeddings scaled by sqrt(d_model).
#include <cmath>

#include "base/check.h"
#include "model/architecture.h"
#include "model/decoder_config.h"

namespace bass {
namespace {

Result<ModelConfig> read_config(const GgufFile& gguf) {
  ModelConfig config{.rope_pairs = RopePairs::kHalves, .activation = Activation::kGeluTanh};
  BASS_RETURN_IF_ERROR(read_decoder_config(gguf, "gemma", &config));
  config.embedding_scale = std::sqrt(static_cast<float>(config.d_model));
  return config;
}

}  // namespace

const Architecture kGemmaArchitecture{"gemma", read_config};

}  // namespace bass
