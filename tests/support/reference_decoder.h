// The decoder in plain float32 loops over a model file: no packing, no pages, no quantised activations. Slow and
// obvious; for tiny models.
#pragma once

#include <vector>

#include "bass/types.h"
#include "model/model_file.h"

namespace bass::testing {

/// Log-probabilities [n_tokens, vocab_size] after each token of a text.
std::vector<std::vector<double>> reference_logprobs(const ModelFile& model, const std::vector<TokenId>& tokens);

}  // namespace bass::testing
