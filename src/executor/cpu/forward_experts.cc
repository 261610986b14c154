// Mixture of experts: every row's feed-forward block is that of a few experts, which a router chooses.
//
// An expert's rows are gathered, so that its weights are read once for all of them. A row's result depends on the row
// alone: its choice is a function of its own router logits, a product gives a row the same bits beside any others, and
// the experts' results are added in the order of their ids.
#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "executor/cpu/forward.h"

namespace bass::cpu {
namespace {

int rounded_up(int n, int to) { return (n + to - 1) / to * to; }

}  // namespace

void CpuForward::make_experts() {
  const ModelConfig& config = model_->config();
  const auto max_rows = static_cast<size_t>(options_.max_rows);
  const auto n_experts = static_cast<size_t>(config.n_experts);
  const size_t n_pairs = max_rows * static_cast<size_t>(config.n_experts_used);
  // Every expert's last row block may have one row, and as many may be missing in front of its panels.
  const size_t n_unused = (kernels_->min_panel_rows > 0 ? kPanelRows : kRowBlock) - 1;
  const size_t max_slots = n_pairs + std::min(n_experts, n_pairs) * n_unused;
  experts_.max_slots = max_slots;
  experts_.n_used = config.n_experts_used;
  experts_.chosen.resize(n_pairs);
  experts_.weights.resize(n_pairs);
  experts_.slots.resize(n_pairs);
  experts_.begins.resize(n_experts);
  experts_.counts.resize(n_experts);
  experts_.active.reserve(n_experts);
  experts_.probabilities = AlignedBuffer(max_rows * n_experts * sizeof(float));
  experts_.results = AlignedBuffer(max_slots * static_cast<size_t>(config.d_model) * sizeof(float));
  experts_.input = make_stage(static_cast<int>(max_slots), config.d_model);
  gated_ = make_stage(static_cast<int>(max_slots), config.d_ff);
}

void CpuOps::route(int layer) {
  const ModelConfig& config = f_.model_->config();
  const PackedMatrix& router = f_.model_->weights().layer(layer).router;
  ExpertRows& experts = f_.experts_;
  f_.kernels_->matmul(router, f_.normed_.rows, n_rows_, context_.share(router.n_tiles()),
                      experts.probabilities.as<float>(), config.n_experts, 0, false, nullptr);
  end(StepPart::kGateUp);
  const WorkRange rows = context_.share(n_rows_);
  for (int row = rows.begin; row < rows.end; ++row) choose_experts(row);
  end(StepPart::kGateUp);
  if (context_.thread_idx() == 0) assign_slots();
  end(StepPart::kGateUp);
  for (int row = rows.begin; row < rows.end; ++row) {
    const float* normed = f_.normed_.rows.f32 + static_cast<ptrdiff_t>(row) * config.d_model;
    for (int i = 0; i < experts.n_used; ++i) {
      const int slot = experts.slots[experts.at(row, i)];
      f_.kernels_->quantise(normed, 0, {slot, slot + 1}, {0, config.d_model}, experts.input.rows);
    }
  }
  end(StepPart::kGateUp);
}

// The most probable experts (of equals, those of lower ids) by the softmax of the router's logits, summed in the order
// of ids.
void CpuOps::choose_experts(int row) {
  const ModelConfig& config = f_.model_->config();
  ExpertRows& experts = f_.experts_;
  const int n = config.n_experts;
  float* p = experts.probabilities.as<float>() + static_cast<ptrdiff_t>(row) * n;
  const float max = *std::max_element(p, p + n);
  for (int e = 0; e < n; ++e) p[e] -= max;
  f_.kernels_->exp(p, n, p);
  float sum = 0;
  for (int e = 0; e < n; ++e) sum += p[e];
  int* chosen = &experts.chosen[experts.at(row, 0)];
  for (int i = 0; i < experts.n_used; ++i) {
    int best = -1;
    for (int e = 0; e < n; ++e) {
      if ((best < 0 || p[e] > p[best]) && std::find(chosen, chosen + i, e) == chosen + i) best = e;
    }
    chosen[i] = best;
  }
  std::sort(chosen, chosen + experts.n_used);
  if (config.expert_weights_sum_to_one) {
    sum = 0;
    for (int i = 0; i < experts.n_used; ++i) sum += p[chosen[i]];
  }
  for (int i = 0; i < experts.n_used; ++i) experts.weights[experts.at(row, i)] = p[chosen[i]] / sum;
}

void CpuOps::assign_slots() {
  ExpertRows& experts = f_.experts_;
  const int n_pairs = n_rows_ * experts.n_used;
  std::fill(experts.counts.begin(), experts.counts.end(), 0);
  for (int i = 0; i < n_pairs; ++i) {
    int& count = experts.counts[static_cast<size_t>(experts.chosen[static_cast<size_t>(i)])];
    experts.slots[static_cast<size_t>(i)] = count++;
  }
  experts.active.clear();
  const int min_panel_rows = f_.kernels_->min_panel_rows;
  int begin = 0;
  for (size_t e = 0; e < experts.counts.size(); ++e) {
    if (experts.counts[e] == 0) continue;
    experts.active.push_back(static_cast<int>(e));
    const bool reads_panels = min_panel_rows > 0 && experts.counts[e] >= min_panel_rows;
    experts.begins[e] = reads_panels ? rounded_up(begin, kPanelRows) : begin;
    begin = experts.begins[e] + rounded_up(experts.counts[e], kRowBlock);
  }
  BASS_CHECK(static_cast<size_t>(begin) <= experts.max_slots);
  for (int i = 0; i < n_pairs; ++i) {
    experts.slots[static_cast<size_t>(i)] +=
        experts.begins[static_cast<size_t>(experts.chosen[static_cast<size_t>(i)])];
  }
}

void CpuOps::gate_up_experts(int layer) {
  const CpuLayer& weights = f_.model_->weights().layer(layer);
  const ExpertRows& experts = f_.experts_;
  const int n_groups = (f_.model_->config().d_ff + kGroupLen - 1) / kGroupLen;
  const WorkRange mine = context_.share(static_cast<int>(experts.active.size()) * n_groups);
  const ProductScope scope(*f_.kernels_);
  for (int i = mine.begin; i < mine.end; ++i) {
    const auto e = static_cast<size_t>(experts.active[static_cast<size_t>(i / n_groups)]);
    const CpuExpert& expert = weights.experts[e];
    gate_up_group(&expert.gate, expert.up, i % n_groups, experts.counts[e],
                  rows_from(experts.input.rows, experts.begins[e]), rows_from(f_.gated_.rows, experts.begins[e]),
                  nullptr);
  }
  end(StepPart::kGateUp);
}

void CpuOps::project_down_experts(int layer) {
  const CpuLayer& weights = f_.model_->weights().layer(layer);
  const ExpertRows& experts = f_.experts_;
  const int d_model = f_.model_->config().d_model;
  const int n_tiles = (d_model + kTileLen - 1) / kTileLen;
  float* results = experts.results.as<float>();
  const WorkRange mine = context_.share(static_cast<int>(experts.active.size()) * n_tiles);
  {
    const ProductScope scope(*f_.kernels_);
    for (int i = mine.begin; i < mine.end;) {
      const auto e = static_cast<size_t>(experts.active[static_cast<size_t>(i / n_tiles)]);
      const int first_tile = i % n_tiles;
      const int n = std::min(n_tiles - first_tile, mine.end - i);
      f_.kernels_->matmul(weights.experts[e].down, rows_from(f_.gated_.rows, experts.begins[e]), experts.counts[e],
                          {first_tile, first_tile + n}, results + static_cast<ptrdiff_t>(experts.begins[e]) * d_model,
                          d_model, 0, false, nullptr);
      i += n;
    }
  }
  end(StepPart::kDown);
  const WorkRange rows = context_.share(n_rows_);
  for (int row = rows.begin; row < rows.end; ++row) {
    float* x = f_.residual_.as<float>() + static_cast<ptrdiff_t>(row) * d_model;
    for (int i = 0; i < experts.n_used; ++i) {
      const float* y = results + static_cast<ptrdiff_t>(experts.slots[experts.at(row, i)]) * d_model;
      const float weight = experts.weights[experts.at(row, i)];
      for (int c = 0; c < d_model; ++c) x[c] += weight * y[c];
    }
  }
  end(StepPart::kDown);
}

}  // namespace bass::cpu
