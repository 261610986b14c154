// Attention of a planned batch: units of work for the threads, and what they leave in the form that the next product
// reads.
#include <algorithm>
#include <chrono>

#include "executor/cpu/forward.h"

namespace bass::cpu {

void CpuOps::attend(int layer) {
  using Clock = std::chrono::steady_clock;
  if (context_.thread_idx() != 0) return attend_batch(layer);
  const Clock::time_point begin = Clock::now();
  attend_batch(layer);
  f_.attention_s_ += std::chrono::duration<double>(Clock::now() - begin).count();
}

void CpuOps::attend_batch(int layer) {
  const ModelConfig& config = f_.model_->config();
  const AttentionPlan& plan = f_.plan_of(layer);
  attend_stage(layer, plan.units, plan.n_units_at_once, {}, &f_.next_unit_);
  end(StepPart::kAttention);
  if (!plan.late_units.empty() || !plan.finishes.empty()) {
    attend_stage(layer, plan.late_units, 1, plan.finishes, &f_.next_late_unit_);
    end(StepPart::kAttention);
  }
  const int n_unit_cols = f_.model_->kv_shape().group_size() * config.head_dim;
  if (f_.attended_.rows.groups == nullptr || n_unit_cols % kGroupLen == 0) return;
  // A KV head's columns are no whole groups of activations: quantise whole rows once all are there.
  const WorkRange rows = share_rows(n_rows_);
  f_.kernels_->quantise(f_.attention_out_.as<float>() + static_cast<ptrdiff_t>(rows.begin) * config.q_dim(),
                        config.q_dim(), rows, {0, config.q_dim()}, without_f32(f_.attended_.rows));
  end(StepPart::kAttention);
}

// Units differ in cost by their context: threads take the next ones when they are done, of many small ones a few at
// once. While there are plenty, a thread takes some ahead, so that their keys can be on their way.
void CpuOps::attend_stage(int layer, std::span<const PlannedUnit> units, int n_at_once,
                          std::span<const PlannedFinish> finishes, WorkCounter* counter) {
  const auto n_units = static_cast<int>(units.size());
  const int n = n_units + static_cast<int>(finishes.size());
  const auto take = [&] { return counter->take() * n_at_once; };
  const auto unit_at = [&](int i) { return i < n_units ? &units[static_cast<size_t>(i)] : nullptr; };
  for (int begin = take(), next = 0; begin < n; begin = next) {
    const int end = std::min(begin + n_at_once, n);
    const bool takes_ahead = begin + n_at_once * context_.n_threads() < n;
    if (takes_ahead) next = take();
    for (int i = begin; i < end; ++i) {
      if (i < n_units) {
        attend_unit(layer, units[static_cast<size_t>(i)],
                    i + 1 < end   ? unit_at(i + 1)
                    : takes_ahead ? unit_at(next)
                                  : nullptr);
      } else {
        finish_unit(layer, finishes[static_cast<size_t>(i - n_units)]);
      }
    }
    if (!takes_ahead) next = take();
  }
}

const std::byte* CpuOps::first_head(int layer, const PlannedUnit& unit) const {
  return f_.plan_of(layer).page_pointers[unit.pages_begin + static_cast<size_t>(unit.first_chunk)] +
         f_.model_->head_offset(layer, unit.kv_head);
}

void CpuOps::attend_unit(int layer, const PlannedUnit& planned, const PlannedUnit* next) {
  const ModelConfig& config = f_.model_->config();
  const KvShape& shape = f_.model_->kv_shape();
  const AttentionPlan& plan = f_.plan_of(layer);
  const auto qkv_stride = static_cast<size_t>(config.q_dim() + 2 * config.kv_dim());
  const auto first_col = static_cast<size_t>(planned.kv_head * shape.group_size() * config.head_dim);
  AttentionToken tokens[kMaxAttentionRows];
  const int n_tokens = planned.n_tokens + planned.n_padding_tokens;
  for (int t = 0; t < n_tokens; ++t) {
    const bool is_padding = t >= planned.n_tokens;
    const auto row =
        static_cast<size_t>(is_padding ? planned.padding_row : plan.rows[planned.rows_begin + static_cast<size_t>(t)]);
    float* out = f_.attention_out_.as<float>() + row * static_cast<size_t>(config.q_dim()) + first_col;
    const int position = position_of(static_cast<int>(row));
    tokens[t] = {f_.qkv_.as<float>() + row * qkv_stride + first_col, is_padding ? nullptr : out, position,
                 plan.first_seen(position)};
  }
  const auto states = [&](ptrdiff_t idx) {
    return idx == PlannedUnit::kNoState ? nullptr
                                        : f_.attention_states_.as<float>() + idx * attention_state_len(config.head_dim);
  };
  AttentionUnit unit;
  unit.tokens = tokens;
  unit.n_tokens = n_tokens;
  unit.first_chunk = planned.first_chunk;
  unit.end_chunk = planned.end_chunk;
  unit.pages = plan.page_pointers.data() + planned.pages_begin;
  unit.head_offset = f_.model_->head_offset(layer, planned.kv_head);
  unit.before = states(planned.before);
  unit.state = states(planned.state);
  unit.chunk_states = states(planned.chunk_states);
  if (next != nullptr) unit.next_head = first_head(layer, *next);
  f_.kernels_->attend(shape, unit);
  if (unit.state != nullptr || unit.chunk_states != nullptr || planned.n_tokens == 0) return;
  quantise_attended(std::span(plan.rows).subspan(planned.rows_begin, static_cast<size_t>(planned.n_tokens)),
                    planned.kv_head);
}

void CpuOps::finish_unit(int layer, const PlannedFinish& planned) {
  const ModelConfig& config = f_.model_->config();
  const AttentionPlan& plan = f_.plan_of(layer);
  const int group_size = f_.model_->kv_shape().group_size();
  const ptrdiff_t state_len = attention_state_len(config.head_dim);
  const float* first = f_.attention_states_.as<float>() + planned.first * state_len;
  const float* rest = f_.attention_states_.as<float>() + planned.rest * state_len;
  const int n_states = planned.n_tokens * group_size;  // of a chunk
  for (int t = 0; t < planned.n_tokens; ++t) {
    const int row = plan.rows[planned.rows_begin + static_cast<size_t>(t)];
    float* out = f_.attention_out_.as<float>() + static_cast<ptrdiff_t>(row) * config.q_dim() +
                 planned.kv_head * group_size * config.head_dim;
    for (int head = 0; head < group_size; ++head) {
      const ptrdiff_t state = (t * group_size + head) * state_len;
      f_.kernels_->finish_attention(config.head_dim, first + state, rest + state,
                                    static_cast<size_t>(n_states * state_len), planned.n_rest,
                                    out + head * config.head_dim);
    }
  }
  quantise_attended(std::span(plan.rows).subspan(planned.rows_begin, static_cast<size_t>(planned.n_tokens)),
                    planned.kv_head);
}

// Where a KV head's columns are whole groups of activations, they are quantised at once; rows that follow one another,
// as a prompt's do, together.
void CpuOps::quantise_attended(std::span<const int> rows, int kv_head) {
  const KvShape& shape = f_.model_->kv_shape();
  const int n_cols = shape.group_size() * shape.head_dim;
  const ActivationRows out = without_f32(f_.attended_.rows);
  if (out.groups == nullptr || n_cols % kGroupLen != 0) return;
  const ptrdiff_t stride = f_.model_->config().q_dim();
  for (size_t i = 0, n = 0; i < rows.size(); i += n) {
    for (n = 1; i + n < rows.size() && rows[i + n] == rows[i + n - 1] + 1;) ++n;
    const float* values = f_.attention_out_.as<float>() + rows[i] * stride + kv_head * n_cols;
    f_.kernels_->quantise(values, stride, {rows[i], rows[i] + static_cast<int>(n)},
                          {kv_head * n_cols, (kv_head + 1) * n_cols}, out);
  }
}

}  // namespace bass::cpu
