// Attention of a planned batch: units of work for the threads, and what they leave in the form that the next product
// reads.
#include <chrono>

#include "executor/cpu/forward.h"

namespace bass::cpu {

void CpuOps::attend(int layer) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  attend_batch(layer);
  f_.attention_s_[static_cast<size_t>(context_.thread_idx())].value +=
      std::chrono::duration<double>(Clock::now() - begin).count();
  if (f_.is_last(layer)) {
    fetch_ = {};
  } else {
    fetch_for_attention_of(layer + 1);
  }
}

void CpuOps::fetch_for_attention_of(int layer) {
  fetch_ = plan_of(layer).cached_heads(is_apart_ ? 0 : context_.thread_idx());
  fetch_.offset = static_cast<ptrdiff_t>(f_.model_->head_offset(layer, 0));
}

// For a product that `later` ones follow in front of attention. Null where those can take all that is left: what is
// fetched too early has left the caches again.
FetchQueue* CpuOps::fetch_before(std::initializer_list<const PackedMatrix*> later) {
  int64_t n_later_bytes = 0;
  for (const PackedMatrix* matrix : later) n_later_bytes += matmul_fetch_bytes(*matrix, n_product_rows());
  return fetch_.n_bytes_left() > n_later_bytes / (is_apart_ ? 1 : context_.n_threads()) ? &fetch_ : nullptr;
}

const AttentionPlan& CpuOps::plan_of(int layer) const {
  if (!is_apart_) return f_.plan_of(layer);
  return f_.thread_plans_[static_cast<size_t>(context_.thread_idx())][f_.layer_plans_[static_cast<size_t>(layer)]];
}

void CpuOps::attend_batch(int layer) {
  const ModelConfig& config = f_.model_->config();
  const AttentionPlan& plan = plan_of(layer);
  attend_stage(layer, plan.early, f_.next_units_);
  end(StepPart::kAttention);
  BASS_CHECK(!is_apart_ || plan.finishes.empty());  // one thread has nothing to wait for: its units are not cut
  if (!plan.late.units.empty() || !plan.finishes.empty()) {
    attend_stage(layer, plan.late, f_.next_late_units_);
    const auto n = static_cast<int>(plan.finishes.size());
    for (int i; f_.next_finish_.has_any_of(n) && (i = f_.next_finish_.take()) < n;)
      finish_token(layer, plan.finishes[static_cast<size_t>(i)]);
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

// Each thread its own share, then what is left of the others': units differ in cost, and processors in speed. The
// counter of a share stays with its thread until it has nothing left.
void CpuOps::attend_stage(int layer, const AttentionPlan::Stage& stage, std::span<WorkCounter> next_units) {
  const auto attend_one = [&](int i, int end) {
    const PlannedUnit* unit = &stage.units[static_cast<size_t>(i)];
    attend_unit(layer, *unit, i + 1 < end ? unit + 1 : nullptr);
  };
  if (is_apart_) {
    const auto n = static_cast<int>(stage.units.size());
    for (int i = 0; i < n; ++i) attend_one(i, n);
    return;
  }
  const int n_threads = context_.n_threads();
  for (int i = 0; i < n_threads; ++i) {
    const int owner = (context_.thread_idx() + i) % n_threads;
    WorkCounter& next = next_units[static_cast<size_t>(owner)];
    const WorkRange share = stage.share(owner);
    const int n = share.end - share.begin;
    for (int taken; next.has_any_of(n) && (taken = next.take()) < n;) attend_one(share.begin + taken, share.end);
  }
}

const std::byte* CpuOps::first_head(int layer, const PlannedUnit& unit) const {
  return plan_of(layer).page_pointers[unit.pages_begin + static_cast<size_t>(unit.first_chunk)] +
         f_.model_->head_offset(layer, unit.kv_head);
}

void CpuOps::attend_unit(int layer, const PlannedUnit& planned, const PlannedUnit* next) {
  const ModelConfig& config = f_.model_->config();
  const KvShape& shape = f_.model_->kv_shape();
  const AttentionPlan& plan = plan_of(layer);
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
  // A plan of this thread's rows counts from its first one.
  const ptrdiff_t first_state = is_apart_ ? static_cast<ptrdiff_t>(rows_.begin) * config.n_heads : 0;
  const auto states = [&](ptrdiff_t idx) {
    if (idx == PlannedUnit::kNoState) return static_cast<float*>(nullptr);
    return f_.attention_states_.as<float>() + (first_state + idx) * attention_state_len(config.head_dim);
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
  unit.chunk_stride = planned.chunk_stride * attention_state_len(config.head_dim);
  merge_rest(planned, states(planned.before), states(planned.rest));
  if (next != nullptr) unit.next_head = first_head(layer, *next);
  f_.kernels_->attend(shape, unit);
  if (unit.state != nullptr || unit.chunk_states != nullptr || planned.n_tokens == 0) return;
  quantise_attended(std::span(plan.rows).subspan(planned.rows_begin, static_cast<size_t>(planned.n_tokens)),
                    planned.kv_head);
}

// before, rest: the unit's states
void CpuOps::merge_rest(const PlannedUnit& planned, float* before, const float* rest) {
  const int head_dim = f_.model_->config().head_dim;
  const ptrdiff_t state_len = attention_state_len(head_dim);
  const int n_states = planned.n_rest > 0 ? planned.n_tokens * f_.model_->kv_shape().group_size() : 0;
  for (int i = 0; i < n_states; ++i) {
    f_.kernels_->merge_chunks(head_dim, before + i * state_len, rest + i * state_len,
                              static_cast<size_t>(planned.chunk_stride * state_len), planned.n_rest);
  }
}

void CpuOps::finish_token(int layer, const PlannedFinish& planned) {
  const ModelConfig& config = f_.model_->config();
  const AttentionPlan& plan = plan_of(layer);
  const int group_size = f_.model_->kv_shape().group_size();
  const ptrdiff_t state_len = attention_state_len(config.head_dim);
  const float* first = f_.attention_states_.as<float>() + planned.first * state_len;
  const float* rest = f_.attention_states_.as<float>() + planned.rest * state_len;
  float* out = f_.attention_out_.as<float>() + static_cast<ptrdiff_t>(plan.rows[planned.row_idx]) * config.q_dim() +
               planned.kv_head * group_size * config.head_dim;
  for (int head = 0; head < group_size; ++head) {
    f_.kernels_->finish_attention(config.head_dim, first + head * state_len, rest + head * state_len,
                                  static_cast<size_t>(planned.chunk_stride * state_len), planned.n_rest,
                                  out + head * config.head_dim);
  }
  quantise_attended(std::span(plan.rows).subspan(planned.row_idx, 1), planned.kv_head);
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
