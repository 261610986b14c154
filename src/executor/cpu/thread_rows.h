// Which rows of a batch a thread takes through the layers by itself.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_team.h"
#include "executor/cpu/attention_plan.h"

namespace bass::cpu {

/// What a row costs in all layers, in operations of int8.
struct RowCost {
  struct Attention {
    int window = 0;       // positions that a row sees at most; 0: all
    double position = 0;  // for each that it sees, over the layers with this window
  };
  double products = 0;  // of the matrices
  std::vector<Attention> attention;

  [[nodiscard]] double at(int position) const {
    double cost = products;
    for (const Attention& a : attention) {
      cost += a.position * (a.window > 0 ? std::min(position + 1, a.window) : position + 1);
    }
    return cost;
  }
};

/// Where many sequences decode or verify, every thread takes some rows through all layers by itself, in place of some
/// channels of all rows: it reads all of the weights, and in return neither waits for others after each operation nor
/// reads what they wrote. Batches of few rows, with prompts' chunks, or that can't be divided evenly are not divided
/// so: a chunk's later rows read the keys of its earlier ones, and its last layer serves few rows.
class ThreadRows {
 public:
  explicit ThreadRows(int n_threads);
  /// Batches of fewer rows are never divided.
  [[nodiscard]] static int64_t min_rows(int n_threads);

  /// Room for any batch of so many segments. May throw std::bad_alloc.
  void reserve(size_t n_segments);
  void split(std::span<const ForwardSegment> segments, const RowCost& cost);

  /// Each thread has rows of its own. What follows is of such a batch.
  [[nodiscard]] bool is_apart() const { return is_apart_; }
  /// Attention reads keys that another thread writes in this batch: it has to wait for them in each layer.
  [[nodiscard]] bool shares_keys() const { return shares_keys_; }
  /// Whole row blocks, but for the batch's last one.
  [[nodiscard]] WorkRange rows(int thread) const {
    const auto t = static_cast<size_t>(thread);
    return {bounds_[t], bounds_[t + 1]};
  }
  /// The segments of these rows, or the parts of segments.
  [[nodiscard]] std::span<const ForwardSegment> segments(int thread) const {
    return segments_[static_cast<size_t>(thread)];
  }

 private:
  bool divide(std::span<const ForwardSegment> segments, const RowCost& cost);
  void cut_segments(std::span<const ForwardSegment> segments);

  int n_threads_;
  bool is_apart_ = false;
  bool shares_keys_ = false;
  std::vector<int> bounds_;                            // [n_threads + 1] rows
  std::vector<std::vector<ForwardSegment>> segments_;  // [n_threads]
};

}  // namespace bass::cpu
