// Gemma with norms behind its blocks, soft caps of scores and logits, and a sliding window in every other layer.
#include "base/check.h"
#include "model/architecture.h"
#include "model/decoder_config.h"
#include "model/gemma.h"
#include "model/tensor_lookup.h"

namespace bass {
namespace {

Result<ModelConfig> read_config(const GgufFile& gguf) {
  ModelConfig config{.has_post_norms = true, .rope_pairs = RopePairs::kHalves, .activation = Activation::kGeluTanh};
  BASS_RETURN_IF_ERROR(read_decoder_config(gguf, "gemma2", &config));
  set_gemma_embedding_scale(&config);
  constexpr int kLayersOf27B = 46;
  set_gemma_score_scale(kLayersOf27B, &config);
  BASS_ASSIGN_OR_RETURN(config.attention_cap, read_positive_float_or(gguf, "gemma2.attn_logit_softcapping", 50.0f));
  BASS_ASSIGN_OR_RETURN(config.logit_cap, read_positive_float_or(gguf, "gemma2.final_logit_softcapping", 30.0f));
  BASS_RETURN_IF_ERROR(read_window_pattern(gguf, 2, &config));
  return config;
}

void import_gemma2(HfImport* import) {
  const UsualShape shape = import_usual_shape(import, {.window = true});
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    if (import->is_null(key)) import->fail_in_key(key, "is null: without this cap BASS does not compute the model");
  }
  import->set_number("attn_logit_softcapping", import->number_or("attn_logit_softcapping", 50.0));
  import->set_number("final_logit_softcapping", import->number_or("final_logit_softcapping", 30.0));
  import_gemma_with_post_norms(import, shape);
}

}  // namespace

const Architecture kGemma2Architecture{"gemma2", read_config, {{"gemma2"}, import_gemma2}};

}  // namespace bass
