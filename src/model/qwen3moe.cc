// Qwen 3 with experts, whose weights are normalised.
#include <fmt/format.h>

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

constexpr HfName kHfExperts[] = {
    {"gate_proj", "ffn_gate_exps"}, {"up_proj", "ffn_up_exps"}, {"down_proj", "ffn_down_exps"}};

void import_qwen3moe(HfImport* import) {
  import->expect_text("hidden_act", {"silu", "swish"});
  import->expect_flag("norm_topk_prob", true);
  import->expect_flag("use_sliding_window", false);
  const UsualShape shape = import_usual_shape(import);
  const int64_t n_experts = import_expert_counts(import);
  import_llama_ends(import);
  import_layers(import, shape, "model.layers.", kLlamaLayerNames);
  for (int64_t layer = 0; layer < shape.n_layers; ++layer) {
    const std::string from = fmt::format("model.layers.{}.mlp.", layer);
    const std::string to = fmt::format("blk.{}.", layer);
    import->tensor(to + "ffn_gate_inp.weight", from + "gate.weight");
    import_experts(import, from + "experts.", to, n_experts, kHfExperts);
  }
}

}  // namespace

const Architecture kQwen3MoeArchitecture{"qwen3moe", read_config, {{"qwen3_moe"}, import_qwen3moe}};

}  // namespace bass
