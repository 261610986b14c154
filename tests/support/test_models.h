// Draft models made from a main model's file: its first layers only, or its vocabulary with random weights.
#pragma once

#include <string>

namespace bass::testing {

/// Writes a model of the first `n_layers` layers of `source`.
void write_truncated_model(const std::string& source, int n_layers, const std::string& path);

/// Writes a one-layer model with random weights (d_model 64) and the vocabulary of `source`, but for its last
/// `n_dropped` tokens and merges.
void write_random_model(const std::string& source, uint32_t seed, const std::string& path, size_t n_dropped = 0);

}  // namespace bass::testing
