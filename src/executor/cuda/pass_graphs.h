// Passes as graphs: a pass's kernels are recorded for each of its sizes and launched as one from then on.
#pragma once

#include <map>
#include <tuple>

#include "bass/request.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/step_rows.h"

namespace bass::cuda {

/// One model's graphs. A graph may run again when all that is launched depends on the sizes of the batch alone, and
/// all that differs lies in memory that stays where it is. Sizes are recorded when they come the second time: those
/// that come once are not worth it, and what the first launch of a kernel loads is loaded then.
class PassGraphs {
 public:
  /// They take memory that nobody has counted. Sizes are rounded, so few engines meet as many.
  static constexpr int kMaxGraphs = 256;
  explicit PassGraphs(Device* device, int max_graphs = kMaxGraphs) : device_(device), n_left_(max_graphs) {}

  /// Queues a pass. queue(): launches its kernels. can_record: it is one that graphs may serve
  template <class Queue>
  void run(const DeviceBatch& batch, bool can_record, Queue queue) {
    const int graph = can_record ? graph_for(batch, queue) : Device::kNoGraph;
    if (graph == Device::kNoGraph) {
      ++counts_.launched_one_by_one;
      return queue();
    }
    ++counts_.replayed;
    device_->launch_graph(graph);
  }

  /// Since construction.
  [[nodiscard]] const GraphCounts& counts() const { return counts_; }

 private:
  using Sizes = std::tuple<int32_t, int32_t, int32_t>;
  /// The driver and the library load kernels when they are needed: without memory for these, the GPU would be lost.
  static constexpr size_t kMinFreeBytes = size_t{256} << 20;

  template <class Queue>
  int graph_for(const DeviceBatch& batch, Queue queue) {
    const Sizes sizes{batch.n_rows, batch.n_segments, batch.max_kv_len};
    const auto [found, is_new] = graphs_.try_emplace(sizes, Device::kNoGraph);
    if (is_new || found->second != Device::kNoGraph || n_left_ == 0) return found->second;
    if (device_->free_bytes() < kMinFreeBytes) {
      n_left_ = 0;
      return Device::kNoGraph;
    }
    device_->begin_graph();
    try {
      queue();
    } catch (...) {  // memory of the host: what comes next must not be recorded, too
      (void)device_->end_graph();
      throw;
    }
    found->second = device_->end_graph();
    if (found->second == Device::kNoGraph) {
      n_left_ = 0;
    } else {
      --n_left_;
      ++counts_.recorded;
    }
    return found->second;
  }

  Device* device_;
  int n_left_;  // that may still be recorded
  std::map<Sizes, int> graphs_;
  GraphCounts counts_;
};

}  // namespace bass::cuda
