// Qwen 3 with experts, whose weights are normalised.
#include "base/check.h"
#include "model/architecture.h"
#include "model/decoder_config.h"
#include "model/hf_usual.h"

namespace bass {
namespace {

Result<ModelConfig> read_config(const GgufFile& gguf) {
  ModelConfig config{.rope_pairs = RopePairs::kHalves, .qk_norm = QkNorm::kEachHead, .expert_weights_sum_to_one = true};
  BASS_RETURN_IF_ERROR(read_decoder_config(gguf, "qwen3moe", &config));
  if (config.n_experts == 0) return invalid_file(gguf.path() + ": key 'qwen3moe.expert_count' is missing or 0");
  return config;
}

void import_qwen3moe(HfImport* import) {
  import->expect_text("hidden_act", {"silu", "swish"});
  import->expect_flag("norm_topk_prob", true);
  import->expect_flag("use_sliding_window", false);
  const UsualShape shape = import_usual_shape(import, {});
  const int64_t n_experts = import_expert_counts(import);
  expect_biases(import, shape, "attention_bias", kAttentionModules);
  import_llama_ends(import);
  import_layers(import, shape, "model.layers.", kLlamaLayerNames);
  import_expert_layers(import, shape.n_layers, n_experts);
}

}  // namespace

const Architecture kQwen3MoeArchitecture{"qwen3moe", read_config, {{"qwen3_moe"}, import_qwen3moe}};

}  // namespace bass
