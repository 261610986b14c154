// RMSNorm (files hold its weight + 1), rope on halves, gated GELU, embeddings scaled by sqrt(d_model).
#include <cmath>

#include "base/check.h"
#include "model/architecture.h"
#include "model/decoder_config.h"
#include "model/hf_usual.h"

namespace bass {
namespace {

Result<ModelConfig> read_config(const GgufFile& gguf) {
  ModelConfig config{.rope_pairs = RopePairs::kHalves, .activation = Activation::kGeluTanh};
  BASS_RETURN_IF_ERROR(read_decoder_config(gguf, "gemma", &config));
  config.embedding_scale = std::sqrt(static_cast<float>(config.d_model));
  return config;
}

/// Checkpoints have norms' weights less 1.
TensorMaking making_of(std::string_view name) { return {.addend = name.ends_with("norm") ? 1.0F : 0.0F}; }

void import_gemma(HfImport* import) {
  import->expect_text("hidden_act", {"gelu_pytorch_tanh", "gelu"});  // older configurations say gelu and mean the other
  const UsualShape shape = import_usual_shape(import);
  import_llama_ends(import, making_of);
  import_layers(import, shape, "model.layers.", kLlamaLayerNames, making_of);
}

}  // namespace

const Architecture kGemmaArchitecture{"gemma", read_config, {{"gemma"}, import_gemma}};

}  // namespace bass
