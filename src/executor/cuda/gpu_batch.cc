#include "executor/cuda/gpu_batch.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "kernels/cuda/attention/attention.h"

namespace bass::cuda {
namespace {

constexpr int kMinKvLen = kRunChunks * kPageLen;  // up to here attention cuts no tiles

}  // namespace

int rounded_rows(int n_rows) {
  if (n_rows <= 8 || n_rows > kMaxRoundedRows) return n_rows;
  const int step = n_rows <= 64 ? 8 : 16;
  return ceil_div(n_rows, step) * step;
}

int rounded_segments(int n_segments) { return static_cast<int>(std::bit_ceil(static_cast<unsigned>(n_segments))); }

int rounded_kv_len(int n_positions) {
  return n_positions == 0 ? 0
                          : static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::max(n_positions, kMinKvLen))));
}

GpuBatch::GpuBatch(Device* device, Staging* staging, const GpuBatchOptions& options)
    : staging_(staging), options_(options), row_capacity_(options.max_rows), segment_capacity_(options.max_segments) {
  if (options.rounds_up) {
    row_capacity_ = std::max(row_capacity_, rounded_rows(std::min(options.max_rows, kMaxRoundedRows)));
    segment_capacity_ = rounded_segments(options.max_segments + 1);
  }
  const auto n_rows = static_cast<size_t>(row_capacity_);
  const auto n_segments = static_cast<size_t>(segment_capacity_);
  const size_t n_pages = n_segments * static_cast<size_t>(options.max_pages) + 2;
  rows_.reserve(n_rows);
  segments_.reserve(n_segments);
  pages_.reserve(n_pages);
  const size_t row_bytes = Staging::aligned(n_rows * sizeof(DeviceRow));
  const size_t segment_bytes = Staging::aligned(n_segments * sizeof(DeviceSegment));
  memory_ = DeviceBuffer(device, row_bytes + segment_bytes + n_pages * sizeof(int32_t));
  if (!memory_.ok()) return;
  batch_.rows = device_rows_ = memory_.as<DeviceRow>();
  batch_.segments = device_segments_ = reinterpret_cast<DeviceSegment*>(memory_.data() + row_bytes);
  batch_.pages = device_pages_ = reinterpret_cast<int32_t*>(memory_.data() + row_bytes + segment_bytes);
  max_pages_ = n_pages;
}

size_t GpuBatch::staged_bytes(size_t n_rows, size_t n_segments, size_t n_pages) {
  constexpr size_t kMaxAddedRows = 16;
  return Staging::aligned((n_rows + kMaxAddedRows) * sizeof(DeviceRow)) +
         Staging::aligned(2 * (n_segments + 1) * sizeof(DeviceSegment)) +
         Staging::aligned((n_pages + 2) * sizeof(int32_t));
}

void GpuBatch::begin() {
  rows_.clear();
  segments_.clear();
  pages_.clear();
  n_added_rows_ = n_segments_ = 0;
}

void GpuBatch::add_segment(int start, bool is_decode, std::span<const PageId> pages, int max_text_len,
                           std::span<const PageId> main_pages) {
  BASS_CHECK(static_cast<int>(segments_.size()) < segment_capacity_);
  DeviceSegment segment;
  segment.first_row = static_cast<int32_t>(rows_.size());
  segment.start = start;
  segment.is_decode = is_decode ? 1 : 0;
  segment.first_page = static_cast<int32_t>(pages_.size());
  segment.n_pages = static_cast<int32_t>(pages.size());
  segment.max_text_len = max_text_len;
  pages_.insert(pages_.end(), pages.begin(), pages.end());
  segment.first_main_page = static_cast<int32_t>(pages_.size());
  if (options_.main_spare_page >= 0) pages_.insert(pages_.end(), main_pages.begin(), main_pages.end());
  segments_.push_back(segment);
}

void GpuBatch::add_token(TokenId token, int hidden_row) {
  BASS_CHECK(static_cast<int>(rows_.size()) < row_capacity_);
  DeviceSegment& segment = segments_.back();
  rows_.push_back({token, segment.start + segment.n_rows, static_cast<int32_t>(segments_.size()) - 1, hidden_row});
  ++segment.n_rows;
}

void GpuBatch::end() {
  n_segments_ = static_cast<int>(segments_.size());
  batch_.n_rows = n_rows();
  is_rounded_ = options_.rounds_up && n_rows() > 0 && n_rows() <= kMaxRoundedRows;
  describe_segments(segments_, &batch_);
  if (is_rounded_) round_up();
  if (n_rows() == 0) {
    batch_.n_segments = 0;  // nothing is uploaded
    return;
  }
  BASS_CHECK(pages_.size() <= max_pages_);
  staging_->upload_to(device_rows_, std::span<const DeviceRow>(rows_));
  staging_->upload_to(device_segments_, std::span<const DeviceSegment>(segments_));
  staging_->upload_to(device_pages_, std::span<const int32_t>(pages_));
}

// One more segment has the added rows, of the token 0, at a text's beginning and on a page of no sequence; others have
// none.
void GpuBatch::round_up() {
  n_added_rows_ = rounded_rows(n_rows()) - n_rows();
  if (n_added_rows_ > 0) {
    add_segment(0, /*is_decode=*/true, {&options_.spare_page, 1}, n_added_rows_, {&options_.main_spare_page, 1});
    constexpr int kFromMainPages = -1;
    for (int i = 0; i < n_added_rows_; ++i) add_token(0, kFromMainPages);
  }
  DeviceSegment empty;
  empty.is_decode = 1;
  segments_.resize(static_cast<size_t>(rounded_segments(static_cast<int>(segments_.size()))), empty);
  batch_.n_rows = static_cast<int32_t>(rows_.size());
  batch_.n_segments = static_cast<int32_t>(segments_.size());
  batch_.max_kv_len = options_.plans_by_len ? rounded_kv_len(batch_.max_kv_len) : 0;
}

}  // namespace bass::cuda
