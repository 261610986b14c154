// Gemma with norms behind its blocks, soft caps of scores and logits, and a sliding window in every other layer.
#include <cmath>

#include "base/check.h"
#include "model/architecture.h"
#include "model/decoder_config.h"
#include "model/tensor_lookup.h"

namespace bass {
namespace {

Result<ModelConfig> read_config(const GgufFile& gguf) {
  ModelConfig config{.has_post_norms = true, .rope_pairs = RopePairs::kHalves, .activation = Activation::kGeluTanh};
  BASS_RETURN_IF_ERROR(read_decoder_config(gguf, "gemma2", &config));
  config.embedding_scale = std::sqrt(static_cast<float>(config.d_model));
  // Files do not tell the scale. The model of 46 layers has that of its width, others that of their heads.
  constexpr int kLayersOf27B = 46;
  if (config.attention_scale == 0 && config.n_layers == kLayersOf27B) {
    config.attention_scale = 1.0f / std::sqrt(static_cast<float>(config.d_model / config.n_heads));
  }
  BASS_ASSIGN_OR_RETURN(config.attention_cap, read_positive_float_or(gguf, "gemma2.attn_logit_softcapping", 50.0f));
  BASS_ASSIGN_OR_RETURN(config.logit_cap, read_positive_float_or(gguf, "gemma2.final_logit_softcapping", 30.0f));
  BASS_RETURN_IF_ERROR(read_window_pattern(gguf, 2, &config));
  return config;
}

}  // namespace

const Architecture kGemma2Architecture{"gemma2", read_config};

}  // namespace bass
