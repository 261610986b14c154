#include "executor/cpu/thread_rows.h"

#include <algorithm>

namespace bass::cpu {
namespace {

// A thread that takes rows through a layer reads all of its weights, so n threads read n times as many bytes. With
// fewer rows than so many for each of these readings they would wait for memory (AMD Zen 5, 2 threads: with 12 rows of
// its own for each a step takes 1.06 of the time, with 16 it takes 0.95).
constexpr int kRowsForReading = 8;

int min_share_rows(int n_threads) { return kRowsForReading * n_threads; }

// The longest share may cost so much more than the mean: what sharing each operation out costs in waiting.
constexpr double kMaxUnevenness = 1.1;

int n_rows_of(std::span<const ForwardSegment> segments) {
  return segments.empty() ? 0 : segments.back().row_begin + segments.back().n_tokens;
}

}  // namespace

ThreadRows::ThreadRows(int n_threads)
    : n_threads_(n_threads), bounds_(static_cast<size_t>(n_threads) + 1), segments_(static_cast<size_t>(n_threads)) {}

int64_t ThreadRows::min_rows(int n_threads) { return int64_t{n_threads} * min_share_rows(n_threads); }

void ThreadRows::reserve(size_t n_segments) {
  for (std::vector<ForwardSegment>& segments : segments_) segments.reserve(n_segments);
}

void ThreadRows::split(std::span<const ForwardSegment> segments, const RowCost& cost) {
  const bool decodes = std::all_of(segments.begin(), segments.end(), [](const ForwardSegment& segment) {
    return segment.is_decode && segment.n_results == segment.n_tokens;
  });
  is_apart_ = decodes && n_threads_ > 1 && n_rows_of(segments) >= min_rows(n_threads_) && divide(segments, cost);
  if (is_apart_) cut_segments(segments);
}

// A share ends behind the row block where the sum of costs comes nearest to what is even. False: no shares are even
// enough.
bool ThreadRows::divide(std::span<const ForwardSegment> segments, const RowCost& cost) {
  const int n_rows = n_rows_of(segments);
  double total = 0;
  for (const ForwardSegment& segment : segments) {
    for (int token = 0; token < segment.n_tokens; ++token) total += cost.at(segment.start + token);
  }
  const double even = total / n_threads_;
  int thread = 0;
  int row = 0;
  double sum = 0;
  double block = 0;
  double share_begin = 0;
  double longest = 0;
  for (const ForwardSegment& segment : segments) {
    for (int token = 0; token < segment.n_tokens; ++token) {
      block += cost.at(segment.start + token);
      if (++row % kRowBlock != 0 && row != n_rows) continue;
      const double target = (thread + 1) * even;
      if (thread + 1 < n_threads_ && sum + block - target > target - sum) {
        longest = std::max(longest, sum - share_begin);
        share_begin = sum;
        bounds_[static_cast<size_t>(++thread)] = (row - 1) / kRowBlock * kRowBlock;
      }
      sum += block;
      block = 0;
    }
  }
  const int n_missing = (kRowBlock - n_rows % kRowBlock) % kRowBlock;  // of the last block: computed all the same
  longest = std::max(longest, sum - share_begin + cost.products * n_missing);
  bounds_[static_cast<size_t>(n_threads_)] = n_rows;
  if (thread + 1 < n_threads_ || longest > kMaxUnevenness * even) return false;
  int fewest = n_rows;
  for (int t = 0; t < n_threads_; ++t) fewest = std::min(fewest, rows(t).end - rows(t).begin);
  return fewest >= min_share_rows(n_threads_);
}

void ThreadRows::cut_segments(std::span<const ForwardSegment> segments) {
  shares_keys_ = false;
  for (std::vector<ForwardSegment>& parts : segments_) parts.clear();
  int thread = 0;
  for (const ForwardSegment& segment : segments) {
    for (int token = 0; token < segment.n_tokens;) {
      const int row = segment.row_begin + token;
      while (row >= rows(thread).end) ++thread;
      ForwardSegment part = segment;
      part.row_begin = row;
      part.start += token;
      part.n_tokens = std::min(segment.n_tokens - token, rows(thread).end - row);
      part.n_results = part.n_tokens;  // a batch without results of some rows is not divided
      segments_[static_cast<size_t>(thread)].push_back(part);
      token += part.n_tokens;
      shares_keys_ = shares_keys_ || part.n_tokens < segment.n_tokens;
    }
  }
}

}  // namespace bass::cpu
