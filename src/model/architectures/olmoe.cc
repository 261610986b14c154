// Norms over all heads of q and of k, rope on halves, experts weighed by their probabilities as they are.
#include "base/check.h"
#include "model/architecture.h"
#include "model/decoder_config.h"
#include "model/hf_usual.h"

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

void import_olmoe(HfImport* import) {
  import->expect_text("hidden_act", {"silu", "swish"});
  import->expect_flag("norm_topk_prob", false);
  if (import->has("clip_qkv")) import->fail_in_key("clip_qkv", "clipped q, k and v are not supported");
  const UsualShape shape = import_usual_shape(import, {.norm_eps = 1e-5});
  const int64_t n_experts = import_expert_counts(import);
  expect_biases(import, shape, "attention_bias", kAttentionModules);
  import_llama_ends(import);
  import_layers(import, shape, "model.layers.", kLlamaLayerNames);
  import_expert_layers(import, shape.n_layers, n_experts);
}

}  // namespace

const Architecture kOlMoeArchitecture{"olmoe", read_config, {{"olmoe"}, import_olmoe}};

}  // namespace bass
