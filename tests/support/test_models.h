// Models made from a file with a fault; draft models made from a main model's file: its first layers only, or its
// vocabulary with random weights.
#pragma once

#include <functional>
#include <string>

#include "support/gguf_builder.h"

namespace bass::testing {

/// What a copy of a model's file has otherwise.
struct ModelEdit {
  std::string without;    // a tensor or key that is left out; "name.": all keys that begin so
  std::string misshapen;  // a tensor whose last size is halved
  std::function<void(GgufBuilder&)> add;
};
void write_edited_model(const std::string& source, const ModelEdit& edit, const std::string& path);

/// Writes a model of the first `n_layers` layers of `source`.
void write_truncated_model(const std::string& source, int n_layers, const std::string& path);

/// Writes a one-layer model with random weights (d_model 64) and the vocabulary of `source`, but for its last
/// `n_dropped` tokens and merges.
void write_random_model(const std::string& source, uint32_t seed, const std::string& path, size_t n_dropped = 0);

}  // namespace bass::testing
