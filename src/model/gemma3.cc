// Gemma with norms behind its blocks and of q and k; five of six layers see a window and have a rope base of their own.
#include <cmath>

#include "base/check.h"
#include "model/architecture.h"
#include "model/decoder_config.h"
#include "model/tensor_lookup.h"

namespace bass {
namespace {

Result<ModelConfig> read_config(const GgufFile& gguf) {
  ModelConfig config{.has_post_norms = true,
                     .rope_pairs = RopePairs::kHalves,
                     .ropes = {RopeConfig{.base = 1e6f}},
                     .qk_norm = QkNorm::kEachHead,
                     .activation = Activation::kGeluTanh};
  BASS_RETURN_IF_ERROR(read_decoder_config(gguf, "gemma3", &config));
  config.embedding_scale = std::sqrt(static_cast<float>(config.d_model));
  // Files do not tell the scale. The model of 62 layers has that of its width, others that of their heads.
  constexpr int kLayersOf27B = 62;
  if (config.attention_scale == 0 && config.n_layers == kLayersOf27B) {
    config.attention_scale = 1.0f / std::sqrt(static_cast<float>(config.d_model / config.n_heads));
  }
  BASS_RETURN_IF_ERROR(read_window_pattern(gguf, 6, &config));
  RopeConfig local;
  BASS_ASSIGN_OR_RETURN(local.base, read_positive_float_or(gguf, "gemma3.rope.freq_base_swa", 10000.0f));
  config.ropes.push_back(local);
  for (LayerConfig& layer : config.layers) layer.rope = layer.window > 0 ? 1 : 0;
  return config;
}

}  // namespace

const Architecture kGemma3Architecture{"gemma3", read_config};

}  // namespace bass
