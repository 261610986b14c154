#include "model/decoder_weights.h"

#include <fmt/format.h>

#include <unordered_set>
#include <utility>

#include "base/check.h"
#include "model/tensor_lookup.h"

namespace bass {
namespace {

/// Rows [begin, begin + n) of a matrix, with their biases.
MatrixRef rows_of(const MatrixRef& matrix, int begin, int n) {
  MatrixRef rows = matrix;
  rows.n_out = n;
  if (!matrix.data.empty()) {
    rows.data = matrix.data.subspan(static_cast<size_t>(begin) * matrix.row_bytes(),
                                    static_cast<size_t>(n) * matrix.row_bytes());
  }
  if (!matrix.bias.empty()) rows.bias.assign(matrix.bias.begin() + begin, matrix.bias.begin() + begin + n);
  return rows;
}

std::vector<float> in_order(const std::vector<float>& values, RowOrder order) {
  std::vector<float> ordered;
  ordered.reserve(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    ordered.push_back(values[static_cast<size_t>(order.file_row(static_cast<int>(i)))]);
  }
  return ordered;
}

/// Finds tensors and remembers which.
class Finder {
 public:
  Finder(const GgufFile& gguf, const ModelConfig& config) : gguf_(gguf), config_(config) {}

  Status find_all(WeightRefs* weights) {
    BASS_RETURN_IF_ERROR(config_.main ? find_draft_input(&weights->draft_input) : find_embedding(weights));
    if (has("output.weight")) {
      weights->is_head_tied = false;
      BASS_ASSIGN_OR_RETURN(weights->head, linear("output", config_.vocab_size, config_.d_model, false));
    }
    BASS_ASSIGN_OR_RETURN(weights->output_norm, norm("output_norm"));
    for (int i = 0; i < config_.n_layers; ++i) {
      prefix_ = fmt::format("blk.{}.", i);
      LayerRefs layer;
      BASS_RETURN_IF_ERROR(find_norms(&layer));
      BASS_RETURN_IF_ERROR(find_attention(&layer));
      BASS_RETURN_IF_ERROR(config_.n_experts > 0 ? find_experts(&layer) : find_feed_forward(&layer));
      weights->layers.push_back(std::move(layer));
    }
    return refuse_others();
  }

 private:
  [[nodiscard]] bool has(const std::string& name) const { return gguf_.find_tensor(prefix_ + name) != nullptr; }

  [[nodiscard]] bool has_rows(const std::string& name, int n) const {
    const TensorInfo* tensor = gguf_.find_tensor(prefix_ + name);
    return tensor != nullptr && tensor->shape.size() == 2 && tensor->shape[1] == n;
  }

  std::string use(const std::string& name) { return *used_.insert(prefix_ + name).first; }

  Result<MatrixRef> matrix(const std::string& stem, int n_out, int n_in) {
    return find_matrix(gguf_, use(stem + ".weight"), n_out, n_in);
  }

  Result<MatrixRef> linear(const std::string& stem, int n_out, int n_in, bool needs_bias) {
    BASS_ASSIGN_OR_RETURN(MatrixRef found, matrix(stem, n_out, n_in));
    if (needs_bias || has(stem + ".bias")) {
      BASS_ASSIGN_OR_RETURN(found.bias, read_vector(gguf_, use(stem + ".bias"), n_out));
    }
    return found;
  }

  Result<NormRef> norm(const std::string& stem) {
    NormRef found;
    BASS_ASSIGN_OR_RETURN(found.weight, read_vector(gguf_, use(stem + ".weight"), config_.d_model));
    if (config_.norm == NormType::kLayer) {
      BASS_ASSIGN_OR_RETURN(found.bias, read_vector(gguf_, use(stem + ".bias"), config_.d_model));
    }
    return found;
  }

  Status find_embedding(WeightRefs* weights) {
    BASS_ASSIGN_OR_RETURN(weights->embedding, matrix("token_embd", config_.vocab_size, config_.d_model));
    if (config_.has_learned_positions) {
      BASS_ASSIGN_OR_RETURN(weights->positions, matrix("position_embd", config_.context_len, config_.d_model));
    }
    weights->is_head_tied = true;
    weights->head = weights->embedding;
    return ok_status();
  }

  Status find_draft_input(DraftInputRefs* input) {
    const int d_model = config_.d_model, d_main = config_.main->d_model;
    const auto n_taps = static_cast<int>(config_.main->tap_layers.size());
    if (n_taps == 0 && !has("draft.input.weight")) return ok_status();
    BASS_ASSIGN_OR_RETURN(input->embed_norm, read_vector(gguf_, use("draft.embed_norm.weight"), d_main));
    BASS_ASSIGN_OR_RETURN(input->input, matrix("draft.input", d_model, d_main + (n_taps > 0 ? d_model : 0)));
    if (n_taps == 0) return ok_status();
    BASS_ASSIGN_OR_RETURN(input->tap_norm, read_vector(gguf_, use("draft.tap_norm.weight"), n_taps * d_main));
    BASS_ASSIGN_OR_RETURN(input->tap, matrix("draft.tap", d_model, n_taps * d_main));
    BASS_ASSIGN_OR_RETURN(input->feature_norm, read_vector(gguf_, use("draft.feature_norm.weight"), d_model));
    return ok_status();
  }

  Status find_norms(LayerRefs* layer) {
    BASS_ASSIGN_OR_RETURN(layer->attention_norm, norm("attn_norm"));
    if (config_.block_order != BlockOrder::kParallelOneNorm) {
      BASS_ASSIGN_OR_RETURN(layer->feed_forward_norm, norm("ffn_norm"));
    }
    if (!config_.has_post_norms) return ok_status();
    BASS_ASSIGN_OR_RETURN(layer->attention_post_norm, norm("post_attention_norm"));
    BASS_ASSIGN_OR_RETURN(layer->feed_forward_post_norm, norm("post_ffw_norm"));
    return ok_status();
  }

  Status find_attention(LayerRefs* layer) {
    const int q_dim = config_.q_dim(), kv_dim = config_.kv_dim(), d_model = config_.d_model;
    if (has("attn_qkv.weight")) {
      BASS_ASSIGN_OR_RETURN(const MatrixRef qkv, linear("attn_qkv", q_dim + 2 * kv_dim, d_model, config_.has_qkv_bias));
      layer->q = rows_of(qkv, 0, q_dim);
      layer->k = rows_of(qkv, q_dim, kv_dim);
      layer->v = rows_of(qkv, q_dim + kv_dim, kv_dim);
    } else {
      BASS_ASSIGN_OR_RETURN(layer->q, linear("attn_q", q_dim, d_model, config_.has_qkv_bias));
      BASS_ASSIGN_OR_RETURN(layer->k, linear("attn_k", kv_dim, d_model, config_.has_qkv_bias));
      BASS_ASSIGN_OR_RETURN(layer->v, linear("attn_v", kv_dim, d_model, config_.has_qkv_bias));
    }
    BASS_ASSIGN_OR_RETURN(layer->output, linear("attn_output", d_model, q_dim, config_.has_attention_output_bias));
    if (config_.qk_norm != QkNorm::kNone) {
      BASS_ASSIGN_OR_RETURN(layer->q_norm, head_norm("attn_q_norm", config_.n_heads));
      BASS_ASSIGN_OR_RETURN(layer->k_norm, head_norm("attn_k_norm", config_.n_kv_heads));
    }
    if (config_.rope_pairs == RopePairs::kHalves) {
      const RowOrder order{config_.head_dim, config_.rope_dim};
      for (MatrixRef* heads : {&layer->q, &layer->k}) {
        heads->order = order;
        heads->bias = in_order(heads->bias, order);
      }
      for (std::vector<float>* weight : {&layer->q_norm, &layer->k_norm}) *weight = in_order(*weight, order);
    }
    return ok_status();
  }

  /// [n_heads * head_dim], also where all heads share theirs.
  Result<std::vector<float>> head_norm(const std::string& stem, int n_heads) {
    const int n_repeats = config_.qk_norm == QkNorm::kEachHead ? n_heads : 1;
    BASS_ASSIGN_OR_RETURN(const std::vector<float> weight,
                          read_vector(gguf_, use(stem + ".weight"), n_heads * config_.head_dim / n_repeats));
    std::vector<float> repeated;
    for (int i = 0; i < n_repeats; ++i) repeated.insert(repeated.end(), weight.begin(), weight.end());
    return repeated;
  }

  Status find_feed_forward(LayerRefs* layer) {
    const int d_ff = config_.d_ff, d_model = config_.d_model;
    const bool has_bias = config_.has_feed_forward_bias;
    if (config_.is_gated && has_rows("ffn_up.weight", 2 * d_ff)) {
      BASS_ASSIGN_OR_RETURN(const MatrixRef gate_up, linear("ffn_up", 2 * d_ff, d_model, has_bias));
      layer->gate = rows_of(gate_up, 0, d_ff);
      layer->up = rows_of(gate_up, d_ff, d_ff);
    } else {
      if (config_.is_gated) {
        BASS_ASSIGN_OR_RETURN(layer->gate, linear("ffn_gate", d_ff, d_model, has_bias));
      }
      BASS_ASSIGN_OR_RETURN(layer->up, linear("ffn_up", d_ff, d_model, has_bias));
    }
    BASS_ASSIGN_OR_RETURN(layer->down, linear("ffn_down", d_model, d_ff, has_bias));
    return ok_status();
  }

  Status find_experts(LayerRefs* layer) {
    const int n_experts = config_.n_experts, d_ff = config_.d_ff, d_model = config_.d_model;
    BASS_ASSIGN_OR_RETURN(layer->router, matrix("ffn_gate_inp", n_experts, d_model));
    BASS_ASSIGN_OR_RETURN(const MatrixRef gate,
                          find_stack(gguf_, use("ffn_gate_exps.weight"), n_experts, d_ff, d_model));
    BASS_ASSIGN_OR_RETURN(const MatrixRef up, find_stack(gguf_, use("ffn_up_exps.weight"), n_experts, d_ff, d_model));
    BASS_ASSIGN_OR_RETURN(const MatrixRef down,
                          find_stack(gguf_, use("ffn_down_exps.weight"), n_experts, d_model, d_ff));
    for (int i = 0; i < n_experts; ++i) {
      layer->experts.push_back(
          {rows_of(gate, i * d_ff, d_ff), rows_of(up, i * d_ff, d_ff), rows_of(down, i * d_model, d_model)});
    }
    return ok_status();
  }

  [[nodiscard]] Status refuse_others() const {
    for (const TensorInfo& tensor : gguf_.tensors()) {
      // Factors of rope belong to the configuration; its frequencies, which some files have, are computed.
      if (tensor.name.starts_with("rope_") || tensor.name.ends_with(".attn_rot_embd.weight")) continue;
      if (used_.contains(std::string(tensor.name))) continue;
      return invalid_file(fmt::format("{}: tensor '{}' belongs to nothing that BASS computes in the architecture '{}'",
                                      gguf_.path(), tensor.name, config_.architecture));
    }
    return ok_status();
  }

  const GgufFile& gguf_;
  const ModelConfig& config_;
  std::string prefix_;  // of the layer in work
  std::unordered_set<std::string> used_;
};

}  // namespace

Result<WeightRefs> find_decoder_weights(const GgufFile& gguf, const ModelConfig& config) {
  WeightRefs weights;
  BASS_RETURN_IF_ERROR(Finder(gguf, config).find_all(&weights));
  return weights;
}

}  // namespace bass
