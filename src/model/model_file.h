// A model as its file has it: shape, vocabulary, and where the weights lie in the mapping. No copy is made here;
// an executor packs the weights for its device.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bass/status.h"
#include "io/gguf.h"
#include "model/config.h"
#include "tensor/dtype.h"
#include "text/vocab.h"

namespace bass {

/// A matrix [n_out, n_in] in a file's own format; row i holds the n_in weights of output channel i.
struct MatrixRef {
  DType type = DType::kF32;
  int n_out = 0;
  int n_in = 0;
  std::span<const std::byte> data;
};

struct LayerRefs {
  std::vector<float> attention_norm;     // [d_model]
  std::vector<float> feed_forward_norm;  // [d_model]
  MatrixRef q, k, v, output;             // [q_dim | kv_dim | kv_dim, d_model], [d_model, q_dim]
  MatrixRef gate, up, down;              // [d_ff, d_model] twice, [d_model, d_ff]
};

struct WeightRefs {
  MatrixRef embedding;             // [vocab_size, d_model]
  bool is_head_tied = false;       // the head is the embedding
  MatrixRef head;                  // [vocab_size, d_model]
  std::vector<float> output_norm;  // [d_model]
  std::vector<LayerRefs> layers;
};

/// Owns the mapping that the references point into.
struct ModelFile {
  std::unique_ptr<GgufFile> gguf;
  ModelConfig config;
  VocabData vocab;
  WeightRefs weights;
  int64_t n_params = 0;
  int64_t file_bytes = 0;
};

/// Opens and checks a model: architecture known, every tensor present and of the right shape.
/// Errors are kInvalidFile and name the file and the key or tensor.
Result<ModelFile> load_model_file(const std::string& path);

/// Whether `draft` can draft for `main`: the tokens of both vocabularies must have equal text, id by id; a vocabulary
/// may have more ids than the other when those are padding (never drafted, never accepted).
Status check_same_vocabulary(const ModelFile& main, const ModelFile& draft);

}  // namespace bass
