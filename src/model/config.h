// The shape of a decoder-only transformer, and the properties in which architectures differ.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cpu/kernels.h"
#include "tensor/dtype.h"

namespace bass {

enum class NormType { kRms, kLayer };
using cpu::Activation;

/// What a block adds to the residual stream x, with a = attention, f = feed-forward, n1 and n2 their norms.
enum class BlockOrder {
  kSequential,       // x += a(n1(x)); x += f(n2(x))
  kParallel,         // x += a(n1(x)) + f(n2(x))
  kParallelOneNorm,  // x += a(n1(x)) + f(n1(x))
};

/// What of q and of k is normalised (RMS) before it is rotated.
enum class QkNorm { kNone, kEachHead, kAllHeads };

/// Which elements of a head are rotated together.
enum class RopePairs {
  kNeighbours,  // 2i and 2i + 1
  kHalves,      // i and i + rope_dim / 2
};

/// One table of rotations. Pair i of position p turns by p base^(-2i / rope_dim) / (factor factors[i]).
struct RopeConfig {
  float base = 10000.0f;
  float factor = 1.0f;         // linear scaling
  float magnitude = 1.0f;      // of the rotated elements
  std::vector<float> factors;  // [rope_dim / 2], or empty
  int original_context_len = 0;
  int long_rope = 0;  // the table of texts longer than original_context_len; 0: there is none
};

/// In what layers differ.
struct LayerConfig {
  static constexpr int kNoRope = -1;

  int window = 0;  // positions that a token sees, itself among them; 0: all
  int rope = 0;    // index into ModelConfig::ropes, or kNoRope
};

/// How a draft that was made for one main model uses it (architecture "bass-draft", docs/drafts.md).
struct MainModelUse {
  std::string fingerprint;  // the main model's (fingerprint.h)
  std::string name;
  int d_model = 0;
  int vocab_size = 0;
  std::vector<int32_t> tap_layers;  // whose output it reads, ascending; none: it reads only tokens
  std::vector<int32_t> vocabulary;  // the tokens that it can propose, ascending; empty: all
  std::optional<DType> head_type;   // that it reads rows of the main model's head in; none: the main model's
};

struct ModelConfig {
  std::string name;
  std::string architecture;
  int n_layers = 0;
  int d_model = 0;
  int n_heads = 0;
  int n_kv_heads = 0;
  int head_dim = 0;
  int d_ff = 0;  // of an expert, where there are experts
  int vocab_size = 0;
  int context_len = 0;        // that the model was trained for
  bool is_synthetic = false;  // weights are random numbers: the model has a shape, but no language

  NormType norm = NormType::kRms;
  float norm_eps = 1e-5f;
  BlockOrder block_order = BlockOrder::kSequential;
  bool has_post_norms = false;  // what a block adds is normalised before

  float embedding_scale = 1.0f;
  bool has_learned_positions = false;  // added to the embedding

  int rope_dim = 0;  // leading elements of a head that are rotated
  RopePairs rope_pairs = RopePairs::kNeighbours;
  std::vector<RopeConfig> ropes{RopeConfig{}};
  std::vector<LayerConfig> layers;  // [n_layers]; empty: all layers are LayerConfig{}

  bool has_qkv_bias = false;
  bool has_attention_output_bias = false;
  bool has_feed_forward_bias = false;
  QkNorm qk_norm = QkNorm::kNone;
  float attention_scale = 0.0f;  // of q.k; 0: 1 / sqrt(head_dim)
  float attention_cap = 0.0f;    // scores and
  float logit_cap = 0.0f;        // logits become cap tanh(x / cap); 0: they stay

  Activation activation = Activation::kSilu;
  bool is_gated = true;                    // h = activation(a Wgate) * (a Wup); else activation(a Wup)
  int n_experts = 0;                       // feed-forward blocks to choose from; 0: there is one
  int n_experts_used = 0;                  // of a token
  bool expert_weights_sum_to_one = false;  // their router probabilities are normalised

  std::optional<MainModelUse> main;  // of a draft that was made for one main model; vocab_size is what it can propose

  [[nodiscard]] int q_dim() const { return n_heads * head_dim; }
  [[nodiscard]] int kv_dim() const { return n_kv_heads * head_dim; }
  [[nodiscard]] LayerConfig layer(int idx) const {
    return layers.empty() ? LayerConfig{} : layers[static_cast<size_t>(idx)];
  }
  /// The layer's index into `ropes`, or kNoRope, in a text of up to max_text_len tokens.
  [[nodiscard]] int rope(int layer_idx, int max_text_len) const {
    const int idx = layer(layer_idx).rope;
    if (idx == LayerConfig::kNoRope) return idx;
    const RopeConfig& usual = ropes[static_cast<size_t>(idx)];
    return usual.long_rope > 0 && max_text_len > usual.original_context_len ? usual.long_rope : idx;
  }
  /// The longest text whose keys turn by the usual tables; those of longer ones, of whatever length, turn alike. None:
  /// there are no other tables.
  [[nodiscard]] std::optional<int> max_usual_text_len() const {
    for (const RopeConfig& rope : ropes) {
      if (rope.long_rope > 0) return rope.original_context_len;
    }
    return std::nullopt;
  }
};

}  // namespace bass
