// Passes as graphs: a pass's kernels are recorded once for each of its sizes and launched as one from then on.
#pragma once

#include <map>
#include <tuple>

#include "bass/engine.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/step_rows.h"

namespace bass::cuda {

/// One model's graphs. A graph may run again when all that is launched depends on the sizes of the batch alone, and
/// all that differs lies in memory that stays where it is.
class PassGraphs {
 public:
  /// Each takes some hundred kilobytes of the GPU's memory and a few milliseconds.
  static constexpr size_t kMaxGraphs = 256;
  explicit PassGraphs(Device* device, size_t max_graphs = kMaxGraphs) : device_(device), max_graphs_(max_graphs) {}

  /// Queues a pass. queue(): launches its kernels. can_record: it is one that graphs may serve
  template <class Queue>
  void run(const DeviceBatch& batch, bool can_record, Queue queue) {
    const Sizes sizes{batch.n_rows, batch.n_segments, batch.max_kv_len, batch.may_share};
    auto found = can_record ? graphs_.find(sizes) : graphs_.end();
    if (found == graphs_.end()) {
      if (!can_record || graphs_.size() >= max_graphs_) {
        ++counts_.launched_one_by_one;
        return queue();
      }
      device_->begin_graph();
      queue();
      found = graphs_.emplace(sizes, device_->end_graph()).first;
      ++counts_.recorded;
    }
    ++counts_.replayed;
    device_->launch_graph(found->second);
  }

  /// Since construction.
  [[nodiscard]] const GraphCounts& counts() const { return counts_; }

 private:
  using Sizes = std::tuple<int32_t, int32_t, int32_t, int32_t>;

  Device* device_;
  size_t max_graphs_;
  std::map<Sizes, int> graphs_;
  GraphCounts counts_;
};

}  // namespace bass::cuda
