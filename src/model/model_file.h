// A model as its file has it: shape, vocabulary, and where the weights lie in the mapping. No copy is made here;
// an executor packs the weights for its device.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bass/status.h"
#include "io/gguf.h"
#include "model/config.h"
#include "tensor/dtype.h"
#include "tensor/row_order.h"
#include "text/vocab.h"

namespace bass {

/// A matrix [n_out, n_in] in a file's own format; row i holds the n_in weights of output channel i.
struct MatrixRef {
  DType type = DType::kF32;
  int n_out = 0;  // 0: the model has no such matrix
  int n_in = 0;
  std::span<const std::byte> data;
  std::vector<float> bias;  // [n_out], or empty
  RowOrder order;           // of the rows of `data`; the bias is in order already

  [[nodiscard]] size_t row_bytes() const {
    const DTypeInfo& info = dtype_info(type);
    return static_cast<size_t>(n_in / info.block_len) * static_cast<size_t>(info.block_bytes);
  }
};

/// [d_model]; empty where the model has no such norm. A NormType::kLayer has a bias, if only zeros.
struct NormRef {
  std::vector<float> weight;
  std::vector<float> bias;
};

struct ExpertRefs {
  MatrixRef gate, up, down;
};

struct LayerRefs {
  NormRef attention_norm, feed_forward_norm;
  NormRef attention_post_norm, feed_forward_post_norm;  // of what is added to the residual stream
  MatrixRef q, k, v, output;                            // [q_dim | kv_dim | kv_dim, d_model], [d_model, q_dim]
  std::vector<float> q_norm, k_norm;                    // [q_dim], [kv_dim], or both empty
  MatrixRef gate, up, down;                             // [d_ff, d_model] twice, [d_model, d_ff]
  MatrixRef router;                                     // [n_experts, d_model]
  std::vector<ExpertRefs> experts;                      // [n_experts], instead of gate, up and down
};

/// How a draft that was made for one main model begins, from its embedding and hidden states (d_main long each):
///   g = Wtap concat over taps j of (rms_norm(tap_j) tap_norm_j), or the draft's own last x where there are no taps yet
///   x = Winput concat(rms_norm(embedding) embed_norm, rms_norm(g) feature_norm)
/// Without taps there is no g; without an input matrix x is the embedding.
struct DraftInputRefs {
  std::vector<float> tap_norm;      // [n_taps, d_main]
  MatrixRef tap;                    // [d_model, n_taps d_main]
  std::vector<float> feature_norm;  // [d_model]
  std::vector<float> embed_norm;    // [d_main]
  MatrixRef input;                  // [d_model, d_main + d_model], or [d_model, d_main]
};

struct WeightRefs {
  MatrixRef embedding;        // [vocab_size, d_model]; a draft made for one main model has none
  MatrixRef positions;        // [context_len, d_model], where they are learned
  bool is_head_tied = false;  // the head is the embedding
  MatrixRef head;             // [vocab_size, d_model]; n_out 0: a draft's, whose rows are the main model's
  NormRef output_norm;
  std::vector<LayerRefs> layers;
  DraftInputRefs draft_input;
};

/// visit(matrix) for all that the layer has.
template <class Visit>
void for_each_matrix(const LayerRefs& layer, Visit visit) {
  const auto visit_present = [&visit](const MatrixRef& matrix) {
    if (matrix.n_out > 0) visit(matrix);
  };
  for (const MatrixRef* matrix :
       {&layer.q, &layer.k, &layer.v, &layer.output, &layer.gate, &layer.up, &layer.down, &layer.router}) {
    visit_present(*matrix);
  }
  for (const ExpertRefs& expert : layer.experts) {
    for (const MatrixRef* matrix : {&expert.gate, &expert.up, &expert.down}) visit_present(*matrix);
  }
}

/// Owns the mapping that the references point into.
struct ModelFile {
  std::unique_ptr<GgufFile> gguf;
  ModelConfig config;
  VocabData vocab;
  WeightRefs weights;
  int64_t n_params = 0;
  int64_t file_bytes = 0;
  int64_t weight_bytes = 0;  ///< of all tensors
};

/// Opens and checks a GGUF file or a Hugging Face checkpoint: architecture known, every tensor present and of the right
/// shape. Errors are kInvalidFile and name the file and the key or tensor. quantise: matrices of numbers become this
/// type (as in a checkpoint); nullopt: as they are. n_threads: that this takes (0: all).
Result<ModelFile> load_model_file(const std::string& path, std::optional<DType> quantise = std::nullopt,
                                  int n_threads = 0);

/// Whether `draft` can draft for `main`. A draft that was made for one main model must have been made for this one. Of
/// any other the tokens of both vocabularies must have equal text, id by id; a vocabulary may have more ids than the
/// other when those are padding (never drafted, never accepted).
Status check_draft_fits(const ModelFile& main, const ModelFile& draft);

}  // namespace bass
