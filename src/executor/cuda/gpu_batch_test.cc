#include "executor/cuda/gpu_batch.h"

#include <gtest/gtest.h>

#include <new>

#include "executor/cuda/pass_graphs.h"
#include "kernels/cuda/emulator/emulated_device.h"
#include "kernels/cuda/rows/activate_rows.h"

namespace bass::cuda {
namespace {

constexpr PageId kSpare = 77;
constexpr PageId kMainSpare = 88;

class GpuBatchTest : public ::testing::Test {
 protected:
  GpuBatch make(bool rounds_up, bool reads_main = false, int max_rows = 200) {
    EXPECT_TRUE(staging_.begin(1 << 16));
    GpuBatchOptions options{.max_rows = max_rows, .max_segments = 5, .max_pages = 8, .rounds_up = rounds_up};
    options.spare_page = kSpare;
    if (reads_main) options.main_spare_page = kMainSpare;
    return GpuBatch(device_.get(), &staging_, options);
  }
  /// Segments of so many rows, each 40 tokens behind its text's beginning.
  static void fill(GpuBatch* batch, std::initializer_list<int> lens) {
    batch->begin();
    PageId page = 0;
    for (const int n_rows : lens) {
      const PageId pages[] = {page, page + 1, page + 2};
      batch->add_segment(40, true, pages, 100, pages);
      const int n_before = batch->n_rows();
      for (int i = 0; i < n_rows; ++i) batch->add_token(1 + i, 0);
      EXPECT_EQ(batch->n_rows(), n_before + n_rows);
      page += 3;
    }
    batch->end();
  }
  template <class T>
  std::vector<T> read(const T* place, int n) {
    std::vector<T> values(static_cast<size_t>(n));
    device_->download(values.data(), place, values.size() * sizeof(T));
    EXPECT_TRUE(device_->synchronize().ok());
    return values;
  }

  std::unique_ptr<Device> device_ = open_emulated_device();
  Staging staging_{device_.get()};
};

TEST_F(GpuBatchTest, SizesAreRoundedUpInSteps) {
  for (const auto& [n, rounded] : {std::pair{1, 1}, {8, 8}, {9, 16}, {63, 64}, {65, 80}, {128, 128}, {129, 129}}) {
    EXPECT_EQ(rounded_rows(n), rounded);
  }
  EXPECT_EQ(rounded_segments(5), 8);
  EXPECT_EQ(rounded_kv_len(0), 0);
  EXPECT_EQ(rounded_kv_len(3), 256);
  EXPECT_EQ(rounded_kv_len(257), 512);
}

TEST_F(GpuBatchTest, AddedRowsWriteToAPageOfNoSequence) {
  GpuBatch batch = make(true, /*reads_main=*/true);
  ASSERT_TRUE(batch.ok());
  fill(&batch, {4, 3, 2});
  EXPECT_EQ(batch.n_rows(), 9);
  EXPECT_EQ(batch.segments().size(), 3u);
  const DeviceBatch& device = batch.on_device();
  EXPECT_EQ(device.n_rows, 16);
  EXPECT_EQ(device.n_segments, 4);
  EXPECT_EQ(device.max_kv_len, 256);
  const auto rows = read(device.rows, 16);
  const auto segments = read(device.segments, 4);
  const auto pages = read(device.pages, 20);
  EXPECT_EQ(rows[8].segment, 2);
  EXPECT_EQ(rows[8].position, 41);
  for (int i = 9; i < 16; ++i) {
    const DeviceRow& row = rows[static_cast<size_t>(i)];
    EXPECT_EQ(row.segment, 3);
    EXPECT_EQ(row.position, i - 9);
    EXPECT_EQ(row.token, 0);
    EXPECT_LT(row.hidden_row, 0) << "it reads no kept state, which there may not be";
  }
  EXPECT_EQ(segments[3].first_row, 9);
  EXPECT_EQ(segments[3].n_rows, 7);
  EXPECT_EQ(pages[static_cast<size_t>(segments[3].first_page)], kSpare);
  EXPECT_EQ(pages[static_cast<size_t>(segments[3].first_main_page)], kMainSpare);
}

TEST_F(GpuBatchTest, ManyRowsAndLayoutsWithoutGraphsStayAsTheyAre) {
  GpuBatch exact = make(false);
  fill(&exact, {4, 3, 2});
  EXPECT_FALSE(exact.is_rounded());
  EXPECT_EQ(exact.on_device().n_rows, 9);
  EXPECT_EQ(exact.on_device().n_segments, 3);
  EXPECT_EQ(exact.on_device().max_kv_len, 44);
  GpuBatch rounding = make(true);
  fill(&rounding, {129});
  EXPECT_FALSE(rounding.is_rounded());
  EXPECT_EQ(rounding.on_device().n_rows, 129);
  fill(&rounding, {});
  EXPECT_FALSE(rounding.is_rounded());
  EXPECT_EQ(rounding.on_device().n_rows, 0);
}

TEST_F(GpuBatchTest, TheFullestBatchHasRoom) {
  GpuBatch batch = make(true, false, /*max_rows=*/113);
  fill(&batch, {25, 25, 25, 25, 13});
  EXPECT_EQ(batch.on_device().n_rows, 128);
  EXPECT_EQ(batch.on_device().n_segments, 8);
  EXPECT_LE(batch.on_device().n_rows, batch.row_capacity());
  EXPECT_LE(batch.on_device().n_segments, batch.segment_capacity());
}

TEST_F(GpuBatchTest, BatchesOfOneSizeHaveOneGraph) {
  const DeviceBuffer memory(device_.get(), 4);
  PassGraphs graphs(device_.get(), /*max_graphs=*/2);
  GpuBatch batch = make(true);
  int n_queued = 0;
  const auto run = [&](std::initializer_list<int> lens) {
    fill(&batch, lens);
    graphs.run(batch.on_device(), batch.is_rounded(), [&] {
      ++n_queued;
      device_->fill(memory.data(), n_queued, 4);
    });
  };
  run({4, 3, 2});  // the first of its size
  EXPECT_EQ(graphs.counts().launched_one_by_one, 1);
  run({2, 5, 5});  // other batches of the same sizes
  run({1, 3, 5});
  EXPECT_EQ(n_queued, 2);
  for (int i = 0; i < 3; ++i) run({1});
  EXPECT_EQ(n_queued, 4);
  for (int i = 0; i < 3; ++i) run({1, 1});  // there is no room for a third one
  for (int i = 0; i < 3; ++i) run({129});
  EXPECT_EQ(n_queued, 10);
  run({5, 3, 1});
  EXPECT_EQ(n_queued, 10);
  EXPECT_EQ(graphs.counts().recorded, 2);
  EXPECT_EQ(graphs.counts().replayed, 5);
  EXPECT_EQ(graphs.counts().launched_one_by_one, 8);
  EXPECT_EQ(read(memory.as<uint8_t>(), 4), (std::vector<uint8_t>(4, 2))) << "of the graph that ran last";
}

TEST_F(GpuBatchTest, WithoutMemoryForGraphsKernelsAreLaunchedOneByOne) {
  const auto device = open_emulated_device({.max_graphs = 1});
  PassGraphs graphs(device.get());
  int n_queued = 0;
  const auto run = [&](int n_rows) {
    DeviceBatch batch;
    batch.n_rows = n_rows;
    graphs.run(batch, true, [&] { ++n_queued; });
  };
  for (const int n_rows : {1, 1, 2}) run(n_rows);
  EXPECT_EQ(n_queued, 3);
  run(2);
  EXPECT_EQ(n_queued, 5) << "in vain, and then for the device";
  for (const int n_rows : {2, 1, 3, 3}) run(n_rows);
  EXPECT_EQ(n_queued, 8) << "nothing is recorded any more";
  EXPECT_EQ(graphs.counts().recorded, 1);
  EXPECT_EQ(graphs.counts().replayed, 2);
}

// The driver's own memory would be wanting next.
TEST_F(GpuBatchTest, GraphsLeaveMemoryToTheDriver) {
  const auto device = open_emulated_device({.total_bytes = size_t{300} << 20});
  PassGraphs graphs(device.get());
  const auto run = [&](int n_rows) {
    DeviceBatch batch;
    batch.n_rows = n_rows;
    graphs.run(batch, true, [] {});
  };
  for (const int n_rows : {1, 1, 2}) run(n_rows);
  EXPECT_EQ(graphs.counts().recorded, 1);
  const DeviceBuffer taken(device.get(), size_t{100} << 20);
  for (const int n_rows : {2, 2, 1}) run(n_rows);
  EXPECT_EQ(graphs.counts().recorded, 1);
  EXPECT_EQ(graphs.counts().replayed, 2) << "of the one that there is";
}

TEST_F(GpuBatchTest, APassThatThrowsIsNotRecorded) {
  PassGraphs graphs(device_.get());
  const DeviceBuffer memory(device_.get(), 4);
  int n_calls = 0;
  DeviceBatch batch;
  batch.n_rows = 1;
  const auto run = [&] {
    graphs.run(batch, true, [&] {
      if (++n_calls == 2) throw std::bad_alloc();
      device_->fill(memory.data(), n_calls, 4);
    });
  };
  run();
  EXPECT_THROW(run(), std::bad_alloc);
  device_->fill(memory.data(), 9, 4);
  EXPECT_EQ(read(memory.as<uint8_t>(), 4), (std::vector<uint8_t>(4, 9))) << "done, and not recorded";
  run();
  run();
  EXPECT_EQ(n_calls, 3);
  EXPECT_EQ(graphs.counts().recorded, 1);
  EXPECT_EQ(read(memory.as<uint8_t>(), 4), (std::vector<uint8_t>(4, 3)));
}

TEST_F(GpuBatchTest, SegmentsWithoutRowsAreNoBatch) {
  GpuBatch batch = make(true);
  batch.begin();
  batch.add_segment(40, true, {}, 100, {});
  batch.end();
  EXPECT_EQ(batch.on_device().n_rows, 0);
  EXPECT_EQ(batch.on_device().n_segments, 0) << "none was uploaded";
}

}  // namespace
}  // namespace bass::cuda
