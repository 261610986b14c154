// Finding a decoder's tensors by the names that GGUF files give them.
#pragma once

#include "bass/status.h"
#include "io/gguf.h"
#include "model/model_file.h"

namespace bass {

/// Everything that the properties of `config` ask for, and the biases of matrices that have one; q, k and v, or gate
/// and up, may be one matrix. Errors (kInvalidFile) name a tensor that is missing or has another shape, and one that
/// the architecture does not have: what it does would be missing from the result. Of matrices without data only the
/// shapes count.
Result<WeightRefs> find_decoder_weights(const GgufFile& gguf, const ModelConfig& config);

}  // namespace bass
