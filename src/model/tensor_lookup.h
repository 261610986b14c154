// Finding a model's tensors by name and shape, with errors that name them.
#pragma once

#include <string>
#include <vector>

#include "bass/status.h"
#include "io/gguf.h"
#include "model/model_file.h"

namespace bass {

/// The matrix `name` of shape [n_out, n_in].
Result<MatrixRef> find_matrix(const GgufFile& gguf, const std::string& name, int n_out, int n_in);

/// The matrices [n_out, n_in] of the tensor `name`, one behind the other in one of n_matrices * n_out rows.
Result<MatrixRef> find_stack(const GgufFile& gguf, const std::string& name, int n_matrices, int n_out, int n_in);

/// The vector `name` of length n, as float.
Result<std::vector<float>> read_vector(const GgufFile& gguf, const std::string& name, int n);

/// The integer metadata `key` if it lies in [low, high].
Result<int> read_int(const GgufFile& gguf, const std::string& key, int low, int high);
Result<int> read_int_or(const GgufFile& gguf, const std::string& key, int fallback, int low, int high);

/// The float metadata `key` if it is finite and above 0.
Result<float> read_positive_float_or(const GgufFile& gguf, const std::string& key, float fallback);

}  // namespace bass
