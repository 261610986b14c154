// Which rows of a batch go through the last layer to its end.
#pragma once

#include <span>
#include <vector>

#include "executor/cpu/attention_plan.h"

namespace bass::cpu {

/// The last layer writes the keys and values of all rows. Its attention and feed-forward block serve only what is read
/// behind it: the rows whose logits or hidden states are asked for, which of a prompt's chunk are often none. (Where
/// that layer's output goes to the pages, all rows are.) Rows with results are numbered anew: places 0 .. n_rows - 1,
/// in the order of the batch.
class ResultRows {
 public:
  /// Room for any batch of so many rows or segments. May throw std::bad_alloc.
  void reserve(size_t n_rows, size_t n_segments);

  /// Of a batch whose segments say how many of their last rows have results.
  void build(std::span<const ForwardSegment> segments);

  /// Every row has one, and its place is its row.
  [[nodiscard]] bool is_all() const { return is_all_; }
  [[nodiscard]] int n_rows() const { return static_cast<int>(rows_.size()); }
  /// row() of a place, and place() of a row that has a result.
  [[nodiscard]] int row(int place) const { return rows_[static_cast<size_t>(place)]; }
  [[nodiscard]] int place(int row) const;
  /// What the batch is in the last layer behind its keys: segments that have results, with these rows alone.
  [[nodiscard]] std::span<const ForwardSegment> segments() const { return segments_; }

 private:
  static constexpr int kNone = -1;

  bool is_all_ = true;
  std::vector<int> rows_;
  std::vector<int> places_;  // [rows of the batch]
  std::vector<ForwardSegment> segments_;
};

}  // namespace bass::cpu
