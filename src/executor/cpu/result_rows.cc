#include "executor/cpu/result_rows.h"

#include <algorithm>

#include "base/check.h"

namespace bass::cpu {

void ResultRows::reserve(size_t n_rows, size_t n_segments) {
  rows_.reserve(n_rows);
  places_.reserve(n_rows);
  segments_.reserve(n_segments);
}

void ResultRows::build(std::span<const ForwardSegment> segments) {
  rows_.clear();
  places_.clear();
  segments_.clear();
  for (const ForwardSegment& segment : segments) {
    const int n_without = segment.n_tokens - segment.n_results;
    BASS_CHECK(n_without >= 0);
    places_.insert(places_.end(), static_cast<size_t>(n_without), kNone);
    if (segment.n_results == 0) continue;
    ForwardSegment& kept = segments_.emplace_back(segment);
    kept.row_begin = n_rows();
    kept.start += n_without;
    kept.n_tokens = segment.n_results;
    for (int row = segment.row_begin + n_without; row < segment.row_begin + segment.n_tokens; ++row) {
      places_.push_back(n_rows());
      rows_.push_back(row);
    }
  }
  is_all_ = rows_.size() == places_.size();
}

int ResultRows::place(int row) const {
  const int place = places_[static_cast<size_t>(row)];
  BASS_CHECK(place != kNone);
  return place;
}

}  // namespace bass::cpu
