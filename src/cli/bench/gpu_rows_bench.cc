#include "cli/bench/gpu_rows_bench.h"

#include <cstdint>

#include "cli/bench/gpu_timing.h"
#include "cli/bench/kernel_inputs.h"
#include "cli/bench/timing.h"
#include "kernels/cuda/sampling/sampling_kernels.h"

namespace bass {
namespace {

constexpr uint32_t kRoundStart = 100;

/// Memory of a device with a copy of the values.
template <class T>
class DeviceCopy {
 public:
  Status load(cuda::Device* device, const std::vector<T>& values) {
    memory_ = cuda::DeviceBuffer(device, values.size() * sizeof(T));
    if (!memory_.ok()) return no_gpu_memory(memory_.n_bytes(), *device);
    device->upload(memory_.data(), values.data(), memory_.n_bytes());
    return device->synchronize();
  }
  [[nodiscard]] T* data() const { return memory_.as<T>(); }

 private:
  cuda::DeviceBuffer memory_;
};

class GpuRowsBenchImpl final : public GpuRowsBench {
 public:
  GpuRowsBenchImpl(cuda::Device* device, const RowsShape& shape) : device_(device), shape_(shape) {}
  Status load();
  Result<RowsTiming> measure(const SamplingParams& params) override;

 private:
  [[nodiscard]] int n_rows() const { return shape_.n_sequences * (shape_.n_drafted + 1); }
  [[nodiscard]] std::vector<float> logits(int n_rows_of_each, size_t nearby) const;
  [[nodiscard]] cuda::LogitsBlock block(const DeviceCopy<float>& logits, int n) const;
  Status load_tasks(const SamplingParams& params);
  void draft(int idx);

  cuda::Device* device_;
  RowsShape shape_;
  DeviceCopy<float> main_logits_, draft_logits_, scratch_;
  DeviceCopy<uint64_t> keys_;
  DeviceCopy<uint16_t> stored_;
  DeviceCopy<TokenId> drafted_;
  DeviceCopy<cuda::DraftTask> drafts_;
  DeviceCopy<cuda::SequenceTask> tasks_;
  DeviceCopy<cuda::RowTask> rows_;
  DeviceCopy<cuda::RoundTask> rounds_;
  DeviceCopy<cuda::RowOutcome> outcomes_;
  DeviceCopy<cuda::JudgedRound> judged_;
};

// A sequence's rows are a little different from each other. [n_sequences, n_rows_of_each, n_tokens]
std::vector<float> GpuRowsBenchImpl::logits(int n_rows_of_each, size_t nearby) const {
  constexpr float kSpread = 4, kDistance = 0.25F;
  constexpr size_t kSequenceStep = 1009, kRowStep = 37;
  const auto n = static_cast<size_t>(shape_.n_tokens);
  const size_t n_all = static_cast<size_t>(shape_.n_sequences) * static_cast<size_t>(n_rows_of_each);
  const std::vector<float> numbers = made_up_floats(n + n_all * (kSequenceStep + kRowStep) + nearby);
  std::vector<float> values(n_all * n);
  for (size_t row = 0; row < n_all; ++row) {
    const float* of_sequence = numbers.data() + row / static_cast<size_t>(n_rows_of_each) * kSequenceStep;
    const float* of_row = numbers.data() + row * kRowStep + nearby;
    for (size_t i = 0; i < n; ++i) values[row * n + i] = kSpread * of_sequence[i] + kDistance * of_row[i];
  }
  return values;
}

Status GpuRowsBenchImpl::load() {
  const auto n = static_cast<size_t>(shape_.n_tokens);
  const auto n_sequences = static_cast<size_t>(shape_.n_sequences);
  const auto n_all = static_cast<size_t>(n_rows());
  BASS_RETURN_IF_ERROR(main_logits_.load(device_, logits(shape_.n_drafted + 1, 7)));
  BASS_RETURN_IF_ERROR(draft_logits_.load(device_, logits(1, 11)));
  BASS_RETURN_IF_ERROR(scratch_.load(device_, std::vector<float>(3 * n_all * n)));
  BASS_RETURN_IF_ERROR(keys_.load(device_, std::vector<uint64_t>(n_all * n)));
  BASS_RETURN_IF_ERROR(stored_.load(device_, std::vector<uint16_t>(n_all * n)));
  BASS_RETURN_IF_ERROR(drafted_.load(device_, std::vector<TokenId>(n_sequences * cuda::kMaxRoundDrafts)));
  BASS_RETURN_IF_ERROR(outcomes_.load(device_, std::vector<cuda::RowOutcome>(n_all)));
  BASS_RETURN_IF_ERROR(judged_.load(device_, std::vector<cuda::JudgedRound>(n_sequences)));
  std::vector<cuda::DraftTask> drafts;
  std::vector<cuda::RowTask> rows;
  std::vector<cuda::RoundTask> rounds;
  for (int32_t i = 0; i < shape_.n_sequences; ++i) {
    drafts.push_back({.sequence = i});
    rounds.push_back({i, static_cast<int32_t>(rows.size()), shape_.n_drafted + 1});
    for (int32_t idx = 0; idx <= shape_.n_drafted; ++idx) {
      rows.push_back({.sequence = i, .idx = idx, .is_extra = idx == shape_.n_drafted});
    }
  }
  BASS_RETURN_IF_ERROR(drafts_.load(device_, drafts));
  BASS_RETURN_IF_ERROR(rows_.load(device_, rows));
  return rounds_.load(device_, rounds);
}

Status GpuRowsBenchImpl::load_tasks(const SamplingParams& params) {
  std::vector<cuda::SequenceTask> tasks;
  for (int i = 0; i < shape_.n_sequences; ++i) {
    cuda::SequenceTask task;
    task.params = params;
    task.params.sample_idx = static_cast<uint32_t>(i);
    task.round_start = kRoundStart;
    task.drafted = drafted_.data() + i * cuda::kMaxRoundDrafts;
    task.stored_stride = shape_.n_tokens;
    if (normalise_for_verification(params) == Normalise::kYes) {
      task.stored = stored_.data() + static_cast<int64_t>(i) * (shape_.n_drafted + 1) * task.stored_stride;
    }
    task.n_draft_tokens = shape_.n_tokens;
    tasks.push_back(task);
  }
  return tasks_.load(device_, tasks);
}

cuda::LogitsBlock GpuRowsBenchImpl::block(const DeviceCopy<float>& logits, int n) const {
  return {logits.data(), shape_.n_tokens, n, shape_.n_tokens, scratch_.data(), keys_.data(), shape_.n_tokens};
}

void GpuRowsBenchImpl::draft(int idx) {
  const cuda::DraftRows kernel{block(draft_logits_, shape_.n_sequences), tasks_.data(), drafts_.data(), idx};
  launch(*device_, kernel, kernel.shape());
}

Result<RowsTiming> GpuRowsBenchImpl::measure(const SamplingParams& params) {
  BASS_RETURN_IF_ERROR(load_tasks(params));
  for (int idx = 0; idx < shape_.n_drafted; ++idx) draft(idx);
  const cuda::LogitsBlock main = block(main_logits_, n_rows());
  const cuda::VerifyRows verify{main, tasks_.data(), rows_.data(), outcomes_.data(), nullptr};
  const cuda::WeighRows weigh{main, tasks_.data(), rows_.data(), outcomes_.data(), judged_.data()};
  const cuda::JudgeRounds judge{main,           tasks_.data(),  rows_.data(),      outcomes_.data(),
                                rounds_.data(), judged_.data(), shape_.n_sequences};
  launch(*device_, verify, verify.shape());  // for the rows that are judged
  const bool judges = is_judged_as_block(params);
  BASS_ASSIGN_OR_RETURN(const std::vector<double> seconds, time_in_turns(3, [&](size_t piece, int n_calls) {
                          return seconds_on_gpu(*device_, [&] {
                            for (int i = 0; i < n_calls; ++i) {
                              if (piece == 0 && shape_.n_drafted > 0) draft(0);
                              if (piece == 1) launch(*device_, verify, verify.shape());
                              if (piece != 2 || !judges) continue;
                              launch(*device_, weigh, weigh.shape());
                              launch(*device_, judge, judge.shape());
                            }
                          });
                        }));
  return RowsTiming{shape_.n_drafted > 0 ? seconds[0] : 0, seconds[1], judges ? seconds[2] : 0};
}

}  // namespace

Result<std::unique_ptr<GpuRowsBench>> make_gpu_rows_bench(cuda::Device* device, const RowsShape& shape) {
  auto bench = std::make_unique<GpuRowsBenchImpl>(device, shape);
  BASS_RETURN_IF_ERROR(bench->load());
  return std::unique_ptr<GpuRowsBench>(std::move(bench));
}

}  // namespace bass
