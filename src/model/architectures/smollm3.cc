// Llama, but every fourth layer does not know positions (NoPE).
#include <fmt/format.h>

#include "base/check.h"
#include "model/architecture.h"
#include "model/decoder_config.h"
#include "model/hf_usual.h"

namespace bass {
namespace {

Result<ModelConfig> read_config(const GgufFile& gguf) {
  ModelConfig config;
  BASS_RETURN_IF_ERROR(read_decoder_config(gguf, "smollm3", &config));
  constexpr size_t kPeriod = 4;
  for (size_t i = kPeriod - 1; i < config.layers.size(); i += kPeriod) config.layers[i].rope = LayerConfig::kNoRope;
  return config;
}

void import_smollm3(HfImport* import) {
  import->expect_text("hidden_act", {"silu", "swish"});
  import->expect_flag("use_sliding_window", false);
  const UsualShape shape = import_usual_shape(import, {.rope_base = 2e6});
  if (import->integer_or("no_rope_layer_interval", 4) != 4) {
    import->fail_in_key("no_rope_layer_interval", "is not 4, which BASS does not compute");
  }
  for (int64_t i = 0; i < kMaxHfLayers && import->has(fmt::format("no_rope_layers.{}", i)); ++i) {
    const std::string key = fmt::format("no_rope_layers.{}", i);
    if ((import->integer(key) == 0) != (i % 4 == 3)) import->fail_in_key(key, "differs from every fourth layer's");
  }
  expect_biases(import, shape, "attention_bias", kAttentionModules);
  expect_biases(import, shape, "mlp_bias", kFeedForwardModules);
  import_llama_ends(import);
  import_layers(import, shape, "model.layers.", kLlamaLayerNames, [&](std::string_view name) -> TensorMaking {
    if (name == "attn_q") return {.rows = neighbouring_pairs(shape.n_heads, shape.head_dim)};
    if (name == "attn_k") return {.rows = neighbouring_pairs(shape.n_kv_heads, shape.head_dim)};
    return {};
  });
}

}  // namespace

const Architecture kSmolLm3Architecture{"smollm3", read_config, {{"smollm3"}, import_smollm3}};

}  // namespace bass
