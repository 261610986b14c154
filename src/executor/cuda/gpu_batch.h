// The rows and segments of a pass on their way to the device, and the sizes that its kernels are launched with.
#pragma once

#include <span>
#include <vector>

#include "bass/request.h"
#include "cache/page_table.h"
#include "executor/cuda/staging.h"
#include "kernels/cuda/step_rows.h"

namespace bass::cuda {

/// Passes with more rows are not rounded up: their kernels take longer than their launches.
inline constexpr int kMaxRoundedRows = 128;
int rounded_rows(int n_rows);
int rounded_segments(int n_segments);
int rounded_kv_len(int n_positions);

struct GpuBatchOptions {
  int max_rows = 0;             // without those that rounding adds
  int max_segments = 0;         // the same
  int max_pages = 0;            // of a segment, the main model's included
  bool rounds_up = false;       // so that few graphs serve many batches
  bool plans_by_len = true;     // attention's launches depend on contexts and on what may be shared
  PageId spare_page = 0;        // of no sequence: added rows write there
  PageId main_spare_page = -1;  // of the main model, where a draft reads its pages; -1: it does not
};

/// Filled by `begin`, `add_segment` and `add_token` for each of its tokens, `end`. The arrays have one place in the
/// device's memory, where graphs find those of the pass that runs.
class GpuBatch {
 public:
  GpuBatch(Device* device, Staging* staging, const GpuBatchOptions& options);

  [[nodiscard]] bool ok() const { return memory_.ok(); }
  [[nodiscard]] const DeviceBuffer& memory() const { return memory_; }
  /// Rows and segments that a pass may have, added ones included.
  [[nodiscard]] int row_capacity() const { return row_capacity_; }
  [[nodiscard]] int segment_capacity() const { return segment_capacity_; }
  /// What a batch appends to the staging at most.
  [[nodiscard]] static size_t staged_bytes(size_t n_rows, size_t n_segments, size_t n_pages);

  void begin();
  void add_segment(int start, bool is_decode, std::span<const PageId> pages, int max_text_len,
                   std::span<const PageId> main_pages);
  void add_token(TokenId token, int hidden_row);
  /// Queues the upload.
  void end();

  /// So far, and without those that `end` adds.
  [[nodiscard]] int n_rows() const { return static_cast<int>(rows_.size()) - n_added_rows_; }
  /// After `end`, without the added one and those that have no rows.
  [[nodiscard]] std::span<const DeviceSegment> segments() const {
    return std::span(segments_).first(static_cast<size_t>(n_segments_));
  }

  [[nodiscard]] const DeviceBatch& on_device() const { return batch_; }
  [[nodiscard]] std::span<const DeviceSegment> all_segments() const { return segments_; }
  [[nodiscard]] bool is_rounded() const { return is_rounded_; }

 private:
  void round_up();

  Staging* staging_;
  GpuBatchOptions options_;
  int row_capacity_;
  int segment_capacity_;
  DeviceBuffer memory_;  // of the three arrays
  DeviceRow* device_rows_ = nullptr;
  DeviceSegment* device_segments_ = nullptr;
  int32_t* device_pages_ = nullptr;
  size_t max_pages_ = 0;
  std::vector<DeviceRow> rows_;
  std::vector<DeviceSegment> segments_;
  std::vector<int32_t> pages_;
  int n_added_rows_ = 0;
  int n_segments_ = 0;
  bool is_rounded_ = false;
  DeviceBatch batch_;
};

}  // namespace bass::cuda
