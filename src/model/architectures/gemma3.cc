// Gemma with norms behind its blocks and of q and k; five of six layers see a window and have a rope base of their own.
#include "base/check.h"
#include "model/architecture.h"
#include "model/decoder_config.h"
#include "model/gemma.h"
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
  set_gemma_embedding_scale(&config);
  constexpr int kLayersOf27B = 62;
  set_gemma_score_scale(kLayersOf27B, &config);
  BASS_RETURN_IF_ERROR(read_window_pattern(gguf, 6, &config));
  BASS_ASSIGN_OR_RETURN(config.attention_cap, read_positive_float_or(gguf, "gemma3.attn_logit_softcapping", 0.0f));
  BASS_ASSIGN_OR_RETURN(config.logit_cap, read_positive_float_or(gguf, "gemma3.final_logit_softcapping", 0.0f));
  RopeConfig local;
  BASS_ASSIGN_OR_RETURN(local.base, read_positive_float_or(gguf, "gemma3.rope.freq_base_swa", 10000.0f));
  const auto local_idx = static_cast<int>(config.ropes.size());
  config.ropes.push_back(local);
  for (LayerConfig& layer : config.layers) layer.rope = layer.window > 0 ? local_idx : 0;
  return config;
}

void import_gemma3(HfImport* import) {
  import->expect_flag("use_bidirectional_attention", false);
  const UsualShape shape = import_usual_shape(import, {.rope_base = 1e6, .window = true});
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    if (import->has(key)) import->set_number(key, import->number(key));
  }
  import_gemma_with_post_norms(import, shape);
}

}  // namespace

const Architecture kGemma3Architecture{"gemma3", read_config, {{"gemma3_text"}, import_gemma3}};

}  // namespace bass
