// What the configurations and checkpoints of most architectures have in common.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/hf_import.h"

namespace bass {

/// A module's name in checkpoints and in GGUF files, inside of a layer or outside; "weight" and "bias" follow.
struct HfName {
  std::string_view hf;
  std::string_view gguf;
};

/// The names of llamas and of what was derived from them, below "model.layers.N.".
inline constexpr HfName kLlamaLayerNames[] = {
    {"input_layernorm", "attn_norm"},    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},      {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"}, {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"}, {"post_attention_layernorm", "ffn_norm"},
    {"mlp.gate_proj", "ffn_gate"},       {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
};

/// Of what a mapping makes loops, bounded so that no configuration makes them long.
inline constexpr int64_t kMaxHfLayers = 1024;
inline constexpr int64_t kMaxHfWidth = 1 << 20;  // numbers of a row; lists of rows are made of them
inline constexpr int64_t kMaxHfHeadDim = 4096;
inline constexpr int64_t kMaxHfExperts = 4096;

struct UsualShape {
  int64_t n_layers = 0;
  int64_t d_model = 0;
  int64_t n_heads = 0;
  int64_t n_kv_heads = 0;
  int64_t head_dim = 0;
};

/// The configuration's word for the epsilon of an RMSNorm; those of a LayerNorm differ.
inline constexpr std::string_view kRmsNormKey = "rms_norm_eps";

/// What an architecture reads of a configuration; other entries of these kinds mean nothing to it.
struct UsualUses {
  bool rope = true;
  double rope_base = 1e4;                   ///< where a configuration does not say it
  bool partial_rope = false;                ///< rope rotates a part of each head
  bool window = false;                      ///< attention slides
  bool kv_heads = true;                     ///< keys and values may have fewer heads than queries
  std::string_view norm_key = kRmsNormKey;  ///< empty: configurations do not say it
  double norm_eps = 1e-6;                   ///< where a configuration does not say it
};

/// Sizes, context, norm, window and rope under the names that configurations use. All zero after an error.
UsualShape import_usual_shape(HfImport* import, UsualUses uses);

/// expert_count, expert_used_count and their feed-forward length; gives the first, 0 after an error.
int64_t import_expert_counts(HfImport* import);

/// Where the configuration says yes to `flag`, every layer must have the biases of these modules of attention or
/// feed-forward ("model.layers.N.").
void expect_biases(HfImport* import, const UsualShape& shape, const std::string& flag,
                   std::span<const std::string_view> modules);
inline constexpr std::string_view kQkvModules[] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"};
inline constexpr std::string_view kAttentionModules[] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                                         "self_attn.o_proj"};
inline constexpr std::string_view kFeedForwardModules[] = {"mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"};

/// "layer_types" as the flags of sliding windows.
void import_window_pattern(HfImport* import, int64_t n_layers);

/// What is done to a module on its way. gguf: its name, as in HfName.
using MakingOf = std::function<TensorMaking(std::string_view gguf)>;

/// The modules that the checkpoint has of these; what an architecture cannot do without it asks for later.
void import_modules(HfImport* import, const std::string& from, const std::string& to, std::span<const HfName> names,
                    const MakingOf& making = {});

/// import_modules for each layer. from: "model.layers.".
void import_layers(HfImport* import, const UsualShape& shape, const std::string& from, std::span<const HfName> names,
                   const MakingOf& making = {});

/// Embedding, final norm and head of a llama. The head is left out where the configuration ties it to the embedding.
void import_llama_ends(HfImport* import, const MakingOf& making = {});
void import_head(HfImport* import);

/// What a layer's block of experts is called, and the matrices of one: Mixtral has its own words.
struct HfExpertNames {
  std::string_view block = "mlp", gate = "gate_proj", up = "up_proj", down = "down_proj";
};

/// Router and gated experts of every layer ("model.layers.N."), the experts' matrices stacked.
void import_expert_layers(HfImport* import, int64_t n_layers, int64_t n_experts, const HfExpertNames& names = {});

/// q's and k's rows: checkpoints have the two of a rotated pair half a head apart, GGUF's llama has them side by side.
std::vector<int32_t> neighbouring_pairs(int64_t n_heads, int64_t head_dim);

/// Rows [begin, begin + n).
std::vector<int32_t> row_range(int64_t begin, int64_t n);

}  // namespace bass
