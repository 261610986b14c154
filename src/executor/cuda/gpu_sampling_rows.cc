// Which rows of the main model's logits are wanted, what the device is asked of them, and what it answers.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "executor/cuda/gpu_sampling.h"

namespace bass::cuda {

size_t GpuSampling::row_bytes(size_t n_rows, size_t n_rounds) {
  return Staging::aligned(n_rows * sizeof(RowTask)) + Staging::aligned(n_rounds * sizeof(RoundTask));
}

int GpuSampling::n_top_of(const StepSampling::WantedRow& row) const {
  return row.wants_top5 ? kScoringTop : plan_->segments[static_cast<size_t>(row.segment)].n_top;
}

// Those of scoring are reserved at load. Few ask for more, so there is no memory for them before.
bool GpuSampling::reserve_tops(size_t n) {
  const size_t n_bytes = n * sizeof(TopToken);
  if (n_bytes <= tops_.n_bytes()) return true;
  DeviceBuffer tops(device_, n_bytes);
  DeviceBuffer host_tops(device_, n_bytes, /*of_host=*/true);
  if (!tops.ok() || !host_tops.ok()) return false;
  tops_ = std::move(tops);
  host_tops_ = std::move(host_tops);
  device_->fill(tops_.data(), 0xFF, n_bytes);  // rows behind a round's end write none, and all are downloaded
  return true;
}

RowTask GpuSampling::row_task(const StepSampling::WantedRow& row) {
  RowTask task{.sequence = row.segment, .idx = row.idx};
  if (row.is_decode) {
    task.is_extra = row.idx == sampling_->draft(row.segment).n_verified();
    task.allowed = allowed(row.segment, row.idx);
  } else if (row.wants_top5) {
    task.kind = RowKind::kTop;
  } else {
    task.kind = RowKind::kTarget;
    task.target = plan_->segments[static_cast<size_t>(row.segment)].targets[static_cast<size_t>(row.idx)];
  }
  task.n_top = n_top_of(row);
  return task;
}

void GpuSampling::plan_rows() {
  row_tasks_.clear();
  round_tasks_.clear();
  round_rows_.clear();
  TopToken* top = tops_.as<TopToken>();
  const std::span<const StepSampling::WantedRow> wanted = sampling_->wanted();
  for (size_t i = 0; i < wanted.size(); ++i) {
    const StepSampling::WantedRow& row = wanted[i];
    const SegmentPlan& segment = plan_->segments[static_cast<size_t>(row.segment)];
    row_tasks_.push_back(row_task(row));
    row_tasks_.back().top = top;
    top += row_tasks_.back().n_top;
    if (!row.is_decode || !is_judged_as_block(segment.sampling)) continue;
    if (row.idx == 0 || i % kLogitsBlockRows == 0) {
      round_tasks_.push_back({row.segment, static_cast<int32_t>(i % kLogitsBlockRows), 0});
      round_rows_.push_back(i);
    }
    ++round_tasks_.back().n_rows;
  }
}

Status GpuSampling::begin_rows() {
  n_tops_ = 0;
  for (const StepSampling::WantedRow& row : sampling_->wanted()) n_tops_ += static_cast<size_t>(n_top_of(row));
  const bool has_tops = n_tops_ * sizeof(TopToken) <= tops_.n_bytes();
  if (!has_tops && !reserve_tops(2 * n_tops_) && !reserve_tops(n_tops_)) {
    return resource_exhausted("no memory of the GPU for a step's most probable tokens");
  }
  plan_rows();
  BASS_CHECK(row_tasks_.size() * sizeof(RowOutcome) <= outcomes_.n_bytes());
  const bool has_room = rows_.begin(row_bytes(row_tasks_.size(), round_tasks_.size()));
  BASS_CHECK(has_room);  // it was reserved
  device_rows_ = rows_.append(std::span<const RowTask>(row_tasks_));
  device_rounds_ = rows_.append(std::span<const RoundTask>(round_tasks_));
  rows_.upload();
  masks_.upload();
  device_->fill(last_rows_.data(), 0x7F, plan_->segments.size() * sizeof(int32_t));  // behind any row
  return ok_status();
}

void GpuSampling::verify_rows(size_t begin, size_t end, const float* logits) {
  const LogitsBlock block = logits_block(logits, shape_.main_vocab_size, end - begin);
  RowOutcome* outcomes = outcomes_.as<RowOutcome>() + begin;
  const VerifyRows kernel{block, device_tasks_, device_rows_ + begin, outcomes,
                          all_rows_count_ ? nullptr : last_rows_.as<int32_t>()};
  launch(*device_, kernel, kernel.shape());
  const auto first = std::lower_bound(round_rows_.begin(), round_rows_.end(), begin) - round_rows_.begin();
  const auto last = std::lower_bound(round_rows_.begin(), round_rows_.end(), end) - round_rows_.begin();
  if (first == last) return;
  const WeighRows weigh{block, device_tasks_, device_rows_ + begin, outcomes, judged_.as<JudgedRound>()};
  launch(*device_, weigh, weigh.shape());
  const JudgeRounds judge{block,
                          device_tasks_,
                          device_rows_ + begin,
                          outcomes,
                          device_rounds_ + first,
                          judged_.as<JudgedRound>(),
                          static_cast<int32_t>(last - first)};
  launch(*device_, judge, judge.shape());
}

void GpuSampling::fetch() {
  const size_t n_segments = plan_->segments.size();
  device_->download(host_outcomes_.data(), outcomes_.data(), row_tasks_.size() * sizeof(RowOutcome));
  fetch_drafted();
  if (n_tops_ > 0) device_->download(host_tops_.data(), tops_.data(), n_tops_ * sizeof(TopToken));
  device_->download(host_judged_.data(), judged_.data(), n_segments * sizeof(JudgedRound));
}

Status GpuSampling::finish() {
  const size_t n_rows = row_tasks_.size();
  BASS_RETURN_IF_ERROR(device_->synchronize());
  settle_drafts();
  const TopToken* top = host_tops_.as<TopToken>();
  for (size_t i = 0; i < n_rows; ++i) {
    tell_row(i, host_outcomes_.as<RowOutcome>()[i]);
    const auto n_top = static_cast<size_t>(row_tasks_[i].n_top);
    tell_top(sampling_->wanted()[i], {top, n_top});
    top += n_top;
  }
  for (const RoundTask& round : round_tasks_) {
    const JudgedRound& judged = host_judged_.as<JudgedRound>()[round.sequence];
    sampling_->take_round(round.sequence, judged.round, judged.stop);
  }
  return ok_status();
}

void GpuSampling::tell_row(size_t wanted_idx, const RowOutcome& outcome) {
  const StepSampling::WantedRow& wanted = sampling_->wanted()[wanted_idx];
  sampling_->take_verdict(wanted_idx, outcome.verdict, outcome.chance, {outcome.p_x, outcome.q_x, outcome.verdict});
  if (wanted.is_decode || wanted.wants_top5) return;
  SegmentResult& result = sampling_->segment_result(wanted.segment);
  result.target_logprobs[static_cast<size_t>(wanted.idx)] = outcome.verdict.logprob;
  result.target_argmax[static_cast<size_t>(wanted.idx)] = outcome.verdict.token;
}

// Of rows behind a round's end too, whatever is there: nobody asks for these.
void GpuSampling::tell_top(const StepSampling::WantedRow& wanted, std::span<const TopToken> top) {
  SegmentResult& result = sampling_->segment_result(wanted.segment);
  for (size_t i = 0; i < top.size() && top[i].id >= 0; ++i) {
    if (wanted.wants_top5) {
      result.top5.emplace_back(top[i].id, top[i].logprob);
    } else {
      result.top_logprobs[static_cast<size_t>(wanted.idx) * top.size() + i] = {top[i].id, top[i].logprob};
    }
  }
}

}  // namespace bass::cuda
