#include "model/fingerprint.h"

#include <fmt/format.h>

#include <span>

#include "base/digest.h"

namespace bass {
namespace {

void add(const std::vector<float>& values, Digest* digest) {
  const auto bytes = std::as_bytes(std::span(values));
  digest->update({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

void add(const NormRef& norm, Digest* digest) {
  add(norm.weight, digest);
  add(norm.bias, digest);
}

}  // namespace

std::string model_fingerprint(const ModelConfig& config, const WeightRefs& weights) {
  Digest digest = Digest::sha256();
  digest.update(fmt::format("{} layers, {} x {}, {} heads of {} for {}, {} experts of {}\n", config.n_layers,
                            config.vocab_size, config.d_model, config.n_heads, config.head_dim, config.n_kv_heads,
                            config.n_experts, config.d_ff));
  for (const LayerRefs& layer : weights.layers) {
    for (const NormRef* norm :
         {&layer.attention_norm, &layer.feed_forward_norm, &layer.attention_post_norm, &layer.feed_forward_post_norm}) {
      add(*norm, &digest);
    }
    add(layer.q_norm, &digest);
    add(layer.k_norm, &digest);
  }
  add(weights.output_norm, &digest);
  return digest.finish();
}

}  // namespace bass
