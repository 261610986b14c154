// What Gemma 1 to 3 share.
#pragma once

#include <string_view>

#include "model/config.h"
#include "model/hf_usual.h"

namespace bass {

/// Embeddings scaled by sqrt(d_model).
void set_gemma_embedding_scale(ModelConfig* config);

/// Gemma 2 and 3: files do not tell the scale of scores. The largest model, known by its layers, has that of its width,
/// others that of their heads.
void set_gemma_score_scale(int n_layers_of_largest, ModelConfig* config);

/// Checkpoints have norms' weights less 1. A MakingOf.
TensorMaking gemma_making(std::string_view gguf_name);

/// Gemma 2 and 3: activation, windows and the scale of scores, then all tensors, with norms behind the blocks too.
void import_gemma_with_post_norms(HfImport* import, const UsualShape& shape);

}  // namespace bass
