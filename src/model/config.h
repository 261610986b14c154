// The shape of a decoder-only transformer.
#pragma once

#include <cstdint>
#include <string>

namespace bass {

struct ModelConfig {
  std::string name;
  std::string architecture;
  int n_layers = 0;
  int d_model = 0;
  int n_heads = 0;
  int n_kv_heads = 0;
  int head_dim = 0;
  int d_ff = 0;
  int vocab_size = 0;
  int context_len = 0;  // that the model was trained for
  int rope_dim = 0;     // leading elements of a head that are rotated
  float rope_base = 10000.0f;
  float rms_eps = 1e-5f;
  bool is_synthetic = false;  // weights are random numbers: the model has a shape, but no language

  [[nodiscard]] int q_dim() const { return n_heads * head_dim; }
  [[nodiscard]] int kv_dim() const { return n_kv_heads * head_dim; }
};

}  // namespace bass
