#include "support/reference_decoder.h"

#include <algorithm>
#include <cmath>

namespace bass::testing {
namespace {

using Row = std::vector<float>;

Row matrix_row(const MatrixRef& matrix, int idx) {
  const DTypeInfo& info = dtype_info(matrix.type);
  const size_t row_bytes = static_cast<size_t>(matrix.n_in / info.block_len * info.block_bytes);
  Row row(static_cast<size_t>(matrix.n_in));
  dequantise_row(matrix.type, matrix.data.data() + static_cast<size_t>(idx) * row_bytes, matrix.n_in, row.data());
  return row;
}

Row project(const MatrixRef& matrix, const Row& x) {
  Row out;
  for (int c = 0; c < matrix.n_out; ++c) {
    const Row weights = matrix_row(matrix, c);
    double sum = 0;
    for (size_t k = 0; k < x.size(); ++k) sum += static_cast<double>(weights[k]) * x[k];
    out.push_back(static_cast<float>(sum));
  }
  return out;
}

Row rms_norm(const Row& x, const Row& weight, float eps) {
  double sum = 0;
  for (const float value : x) sum += static_cast<double>(value) * value;
  const double factor = 1 / std::sqrt(sum / static_cast<double>(x.size()) + eps);
  Row out;
  for (size_t i = 0; i < x.size(); ++i) out.push_back(static_cast<float>(x[i] * factor * weight[i]));
  return out;
}

void add_to(Row& x, const Row& y) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

void rotate(const ModelConfig& config, int position, float* head) {
  for (int pair = 0; pair < config.rope_dim / 2; ++pair) {
    const double angle = position * std::pow(config.rope_base, -2.0 * pair / config.rope_dim);
    const double x = head[2 * pair], y = head[2 * pair + 1];
    head[2 * pair] = static_cast<float>(x * std::cos(angle) - y * std::sin(angle));
    head[2 * pair + 1] = static_cast<float>(x * std::sin(angle) + y * std::cos(angle));
  }
}

// Attention of one query head at the last of `keys`.
void attend(const ModelConfig& config, const float* q, const std::vector<Row>& keys, const std::vector<Row>& values,
            int kv_head, float* out) {
  const int dim = config.head_dim;
  std::vector<double> weights;
  double max = -INFINITY, sum = 0;
  for (const Row& key : keys) {
    double score = 0;
    for (int d = 0; d < dim; ++d) score += static_cast<double>(q[d]) * key[static_cast<size_t>(kv_head * dim + d)];
    weights.push_back(score / std::sqrt(static_cast<double>(dim)));
    max = std::max(max, weights.back());
  }
  for (double& weight : weights) sum += weight = std::exp(weight - max);
  for (int d = 0; d < dim; ++d) {
    double total = 0;
    for (size_t t = 0; t < values.size(); ++t) total += weights[t] * values[t][static_cast<size_t>(kv_head * dim + d)];
    out[d] = static_cast<float>(total / sum);
  }
}

struct LayerCache {
  std::vector<Row> keys, values;
};

void run_layer(const ModelConfig& config, const LayerRefs& layer, int position, LayerCache& cache, Row& x) {
  const Row a = rms_norm(x, layer.attention_norm, config.rms_eps);
  Row q = project(layer.q, a), k = project(layer.k, a);
  for (int head = 0; head < config.n_heads; ++head) rotate(config, position, q.data() + head * config.head_dim);
  for (int head = 0; head < config.n_kv_heads; ++head) rotate(config, position, k.data() + head * config.head_dim);
  cache.keys.push_back(k);
  cache.values.push_back(project(layer.v, a));
  Row attended(q.size());
  const int group = config.n_heads / config.n_kv_heads;
  for (int head = 0; head < config.n_heads; ++head) {
    attend(config, q.data() + head * config.head_dim, cache.keys, cache.values, head / group,
           attended.data() + head * config.head_dim);
  }
  add_to(x, project(layer.output, attended));
  const Row b = rms_norm(x, layer.feed_forward_norm, config.rms_eps);
  Row gate = project(layer.gate, b);
  const Row up = project(layer.up, b);
  for (size_t i = 0; i < gate.size(); ++i)
    gate[i] = static_cast<float>(gate[i] / (1 + std::exp(-static_cast<double>(gate[i])))) * up[i];
  add_to(x, project(layer.down, gate));
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
    Row x = matrix_row(model.weights.embedding, tokens[position]);
    for (size_t i = 0; i < caches.size(); ++i)
      run_layer(config, model.weights.layers[i], static_cast<int>(position), caches[i], x);
    rows.push_back(log_softmax(project(model.weights.head, rms_norm(x, model.weights.output_norm, config.rms_eps))));
  }
  return rows;
}

}  // namespace bass::testing
