// Which sequences would run together under regular decoding, where all advance by one token a step.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bass {

/// Drafts let sequences of one batch end far apart, and those that are left have fewer rows to share a step's cost with
/// than regular decoding would give them. Positions are steps of regular decoding: a sequence's start and its tokens.
class RegularBatch {
 public:
  /// max_batch >= 1 sequences run at once. All memory is taken here.
  explicit RegularBatch(int max_batch) : max_batch_(static_cast<size_t>(max_batch)) { ends_.reserve(max_batch_); }

  /// Where a new sequence starts: beside the last of those that run, which is one further by now, or in the place of
  /// the first that ends.
  int64_t start() {
    if (ends_.empty() || n_running_ + ends_.size() < max_batch_) return last_ + 1;
    const auto first = std::min_element(ends_.begin(), ends_.end());
    const int64_t end = *first;
    ends_.erase(first);
    return end;
  }

  /// A step of n_running sequences, the last of which is at `last`: so many would run under regular decoding.
  int n_sequences(int n_running, int64_t last) {
    n_running_ = static_cast<size_t>(n_running);
    last_ = last;
    std::erase_if(ends_, [last](int64_t end) { return end <= last; });
    return static_cast<int>(std::max(n_running_, std::min(max_batch_, n_running_ + ends_.size())));
  }

  /// A sequence has ended at this position.
  void end(int64_t position) {
    if (ends_.size() < max_batch_) ends_.push_back(position);
  }

 private:
  size_t max_batch_;
  size_t n_running_ = 0;
  int64_t last_ = 0;
  std::vector<int64_t> ends_;  // of sequences that have ended, but would still run
};

}  // namespace bass
