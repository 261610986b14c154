#include "model/tensor_lookup.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "base/check.h"

namespace bass {
namespace {

Result<const TensorInfo*> find_shaped(const GgufFile& gguf, const std::string& name,
                                      const std::vector<int64_t>& shape) {
  const TensorInfo* tensor = gguf.find_tensor(name);
  if (tensor == nullptr) return invalid_file(fmt::format("{}: tensor '{}' is missing", gguf.path(), name));
  if (tensor->shape != shape) {
    return invalid_file(fmt::format("{}: tensor '{}' has shape [{}], expected [{}]", gguf.path(), name,
                                    fmt::join(tensor->shape, ", "), fmt::join(shape, ", ")));
  }
  return tensor;
}

}  // namespace

Result<MatrixRef> find_matrix(const GgufFile& gguf, const std::string& name, int n_out, int n_in) {
  BASS_ASSIGN_OR_RETURN(const TensorInfo* tensor, find_shaped(gguf, name, {n_in, n_out}));
  return MatrixRef{tensor->type, n_out, n_in, tensor->data, {}, {}};
}

Result<MatrixRef> find_stack(const GgufFile& gguf, const std::string& name, int n_matrices, int n_out, int n_in) {
  BASS_ASSIGN_OR_RETURN(const TensorInfo* tensor, find_shaped(gguf, name, {n_in, n_out, n_matrices}));
  return MatrixRef{tensor->type, n_matrices * n_out, n_in, tensor->data, {}, {}};
}

Result<std::vector<float>> read_vector(const GgufFile& gguf, const std::string& name, int n) {
  BASS_ASSIGN_OR_RETURN(const TensorInfo* tensor, find_shaped(gguf, name, {n}));
  std::vector<float> values(static_cast<size_t>(n));
  dequantise_row(tensor->type, tensor->data.data(), n, values.data());
  for (const float value : values) {
    if (!std::isfinite(value)) {
      return invalid_file(fmt::format("{}: tensor '{}' holds a value that is not finite", gguf.path(), name));
    }
  }
  return values;
}

Result<int> read_int(const GgufFile& gguf, const std::string& key, int low, int high) {
  BASS_ASSIGN_OR_RETURN(const uint32_t value, gguf.get_u32(key));
  if (value < static_cast<uint32_t>(low) || value > static_cast<uint32_t>(high)) {
    return invalid_file(fmt::format("{}: key '{}' is {}, expected {} to {}", gguf.path(), key, value, low, high));
  }
  return static_cast<int>(value);
}

Result<int> read_int_or(const GgufFile& gguf, const std::string& key, int fallback, int low, int high) {
  if (!gguf.has(key)) return fallback;
  return read_int(gguf, key, low, high);
}

Result<float> read_positive_float_or(const GgufFile& gguf, const std::string& key, float fallback) {
  if (!gguf.has(key)) return fallback;
  BASS_ASSIGN_OR_RETURN(const float value, gguf.get_f32(key));
  if (!std::isfinite(value) || value <= 0) {
    return invalid_file(fmt::format("{}: key '{}' is {}, expected a number above 0", gguf.path(), key, value));
  }
  return value;
}

}  // namespace bass
