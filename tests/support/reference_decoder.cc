#include "support/reference_decoder.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace bass::testing {
namespace {

using Row = std::vector<float>;

Row matrix_row(const MatrixRef& matrix, int idx) {
  Row row(static_cast<size_t>(matrix.n_in));
  const auto file_row = static_cast<size_t>(matrix.order.file_row(idx));
  dequantise_row(matrix.type, matrix.data.data() + file_row * matrix.row_bytes(), matrix.n_in, row.data());
  return row;
}

Row project(const MatrixRef& matrix, const Row& x) {
  Row out;
  for (int c = 0; c < matrix.n_out; ++c) {
    const Row weights = matrix_row(matrix, c);
    double sum = matrix.bias.empty() ? 0.0 : matrix.bias[static_cast<size_t>(c)];
    for (size_t k = 0; k < x.size(); ++k) sum += static_cast<double>(weights[k]) * x[k];
    out.push_back(static_cast<float>(sum));
  }
  return out;
}

// weight: those of elements x[0], x[1], ...
void rms_norm(float* x, const float* weight, size_t n, float eps) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * x[i];
  const double factor = 1 / std::sqrt(sum / static_cast<double>(n) + eps);
  for (size_t i = 0; i < n; ++i) x[i] = static_cast<float>(x[i] * factor * weight[i]);
}

Row normalise(const ModelConfig& config, const NormRef& norm, Row x) {
  if (config.norm == NormType::kRms) {
    rms_norm(x.data(), norm.weight.data(), x.size(), config.norm_eps);
    return x;
  }
  const auto n = static_cast<double>(x.size());
  double sum = 0, squares = 0;
  for (const float value : x) sum += value;
  for (const float value : x) squares += (value - sum / n) * (value - sum / n);
  const double factor = 1 / std::sqrt(squares / n + config.norm_eps);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>((x[i] - sum / n) * factor * norm.weight[i] + norm.bias[i]);
  }
  return x;
}

void add_to(Row& x, const Row& y) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

// Neighbouring pairs: rows of q and k are taken in such an order.
void rotate(const ModelConfig& config, const RopeConfig& rope, int position, float* head) {
  for (int pair = 0; pair < config.rope_dim / 2; ++pair) {
    const double factor = rope.factor * (rope.factors.empty() ? 1.0 : rope.factors[static_cast<size_t>(pair)]);
    const double angle = position * std::pow(rope.base, -2.0 * pair / config.rope_dim) / factor;
    const double x = head[2 * pair], y = head[2 * pair + 1];
    head[2 * pair] = static_cast<float>(rope.magnitude * (x * std::cos(angle) - y * std::sin(angle)));
    head[2 * pair + 1] = static_cast<float>(rope.magnitude * (x * std::sin(angle) + y * std::cos(angle)));
  }
}

double soft_cap(double x, double cap) { return cap > 0 ? cap * std::tanh(x / cap) : x; }

struct LayerCache {
  std::vector<Row> keys, values;
};

// Attention of one query head at the last of the keys.
void attend(const ModelConfig& config, int window, const float* q, const LayerCache& cache, int kv_head, float* out) {
  const int dim = config.head_dim;
  const double scale = config.attention_scale > 0 ? config.attention_scale : 1 / std::sqrt(static_cast<double>(dim));
  const size_t n = cache.keys.size();
  const size_t first = window > 0 && n > static_cast<size_t>(window) ? n - static_cast<size_t>(window) : 0;
  std::vector<double> weights(n, 0.0);
  double max = -INFINITY, sum = 0;
  for (size_t t = first; t < n; ++t) {
    double score = 0;
    for (int d = 0; d < dim; ++d) {
      score += static_cast<double>(q[d]) * cache.keys[t][static_cast<size_t>(kv_head * dim + d)];
    }
    weights[t] = soft_cap(score * scale, config.attention_cap);
    max = std::max(max, weights[t]);
  }
  for (size_t t = first; t < n; ++t) sum += weights[t] = std::exp(weights[t] - max);
  for (int d = 0; d < dim; ++d) {
    double total = 0;
    for (size_t t = first; t < n; ++t) total += weights[t] * cache.values[t][static_cast<size_t>(kv_head * dim + d)];
    out[d] = static_cast<float>(total / sum);
  }
}

void normalise_heads(const ModelConfig& config, const std::vector<float>& weight, Row& x) {
  if (weight.empty()) return;
  const size_t n = config.qk_norm == QkNorm::kEachHead ? static_cast<size_t>(config.head_dim) : x.size();
  for (size_t i = 0; i < x.size(); i += n) rms_norm(x.data() + i, weight.data() + i, n, config.norm_eps);
}

Row attention_block(const ModelConfig& config, const LayerRefs& layer, const LayerConfig& shape, int position,
                    LayerCache& cache, const Row& a) {
  Row q = project(layer.q, a), k = project(layer.k, a);
  normalise_heads(config, layer.q_norm, q);
  normalise_heads(config, layer.k_norm, k);
  if (shape.rope != LayerConfig::kNoRope) {
    const RopeConfig& rope = config.ropes[static_cast<size_t>(shape.rope)];
    for (int head = 0; head < config.n_heads; ++head) rotate(config, rope, position, q.data() + head * config.head_dim);
    for (int head = 0; head < config.n_kv_heads; ++head) {
      rotate(config, rope, position, k.data() + head * config.head_dim);
    }
  }
  cache.keys.push_back(k);
  cache.values.push_back(project(layer.v, a));
  Row attended(q.size());
  const int group = config.n_heads / config.n_kv_heads;
  for (int head = 0; head < config.n_heads; ++head) {
    attend(config, shape.window, q.data() + head * config.head_dim, cache, head / group,
           attended.data() + head * config.head_dim);
  }
  return project(layer.output, attended);
}

double activate(Activation kind, double x) {
  switch (kind) {
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
    case Activation::kGeluTanh:
      return x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))) / 2;
    case Activation::kGelu:
      return x * std::erfc(-x / std::sqrt(2.0)) / 2;
    case Activation::kRelu:
      return std::max(x, 0.0);
  }
  return NAN;
}

// gate: of no rows where the block is not gated.
Row dense_block(const ModelConfig& config, const MatrixRef& gate, const MatrixRef& up, const MatrixRef& down,
                const Row& a) {
  const Row gates = project(gate, a);
  Row h = project(up, a);
  for (size_t i = 0; i < h.size(); ++i) {
    h[i] = static_cast<float>(gates.empty() ? activate(config.activation, h[i])
                                            : activate(config.activation, gates[i]) * h[i]);
  }
  return project(down, h);
}

Row feed_forward_block(const ModelConfig& config, const LayerRefs& layer, const Row& a) {
  if (layer.experts.empty()) return dense_block(config, layer.gate, layer.up, layer.down, a);
  const Row logits = project(layer.router, a);
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) { return logits[x] > logits[y]; });
  const double max = logits[order[0]];
  const auto n_used = static_cast<size_t>(config.n_experts_used);
  double sum = 0;
  for (size_t i = 0; i < (config.expert_weights_sum_to_one ? n_used : order.size()); ++i) {
    sum += std::exp(logits[order[i]] - max);
  }
  Row out(a.size(), 0.0f);
  for (size_t i = 0; i < n_used; ++i) {
    const ExpertRefs& expert = layer.experts[order[i]];
    const Row y = dense_block(config, expert.gate, expert.up, expert.down, a);
    const auto weight = static_cast<float>(std::exp(logits[order[i]] - max) / sum);
    for (size_t c = 0; c < out.size(); ++c) out[c] += weight * y[c];
  }
  return out;
}

void run_layer(const ModelConfig& config, const LayerRefs& layer, const LayerConfig& shape, int position,
               LayerCache& cache, Row& x) {
  const auto post_norm = [&](const NormRef& norm, Row y) {
    return config.has_post_norms ? normalise(config, norm, std::move(y)) : y;
  };
  const Row before = x;
  const Row a = normalise(config, layer.attention_norm, x);
  add_to(x, post_norm(layer.attention_post_norm, attention_block(config, layer, shape, position, cache, a)));
  Row b = a;  // BlockOrder::kParallelOneNorm
  if (config.block_order == BlockOrder::kParallel) b = normalise(config, layer.feed_forward_norm, before);
  if (config.block_order == BlockOrder::kSequential) b = normalise(config, layer.feed_forward_norm, x);
  add_to(x, post_norm(layer.feed_forward_post_norm, feed_forward_block(config, layer, b)));
}

Row embed(const ModelFile& model, TokenId token, int position) {
  Row x = matrix_row(model.weights.embedding, token);
  for (float& value : x) value *= model.config.embedding_scale;
  if (model.config.has_learned_positions) add_to(x, matrix_row(model.weights.positions, position));
  return x;
}

std::vector<double> log_softmax(const Row& logits) {
  const double max = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - max);
  std::vector<double> out;
  for (const float logit : logits) out.push_back(logit - max - std::log(sum));
  return out;
}

}  // namespace

std::vector<std::vector<double>> reference_logprobs(const ModelFile& model, const std::vector<TokenId>& tokens) {
  const ModelConfig& config = model.config;
  std::vector<LayerCache> caches(model.weights.layers.size());
  std::vector<std::vector<double>> rows;
  for (size_t position = 0; position < tokens.size(); ++position) {
    Row x = embed(model, tokens[position], static_cast<int>(position));
    for (size_t i = 0; i < caches.size(); ++i) {
      LayerConfig shape = config.layer(static_cast<int>(i));
      shape.rope = config.rope(static_cast<int>(i), static_cast<int>(tokens.size()));
      run_layer(config, model.weights.layers[i], shape, static_cast<int>(position), caches[i], x);
    }
    Row logits = project(model.weights.head, normalise(config, model.weights.output_norm, x));
    for (float& logit : logits) logit = static_cast<float>(soft_cap(logit, config.logit_cap));
    rows.push_back(log_softmax(logits));
  }
  return rows;
}

}  // namespace bass::testing
