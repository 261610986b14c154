// Ragged attention on an emulated GPU: the bits of the CPU's attention in every layout, and plans that meet every chunk
// of every row once.
#include "kernels/cuda/attention/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <tuple>

#include "kernels/cuda/attention/attention_testing.h"
#include "kernels/cuda/attention/padded_attention.h"

namespace bass::cuda {
namespace {

using testing::attend;
using testing::Batch;
using testing::HeadShape;
using testing::kKinds;
using testing::same_bits;
using testing::Sequence;
using testing::upload;
using testing::Uploaded;

void expect_bits_of_the_cpu(const HeadShape& heads, const std::vector<Sequence>& sequences, int window = 0) {
  const Batch batch(heads, sequences, window);
  const std::vector<float> expected = batch.expected();
  static const std::unique_ptr<Device> gpu = testing::real_gpu();
  for (const GpuAttentionKind kind : kKinds) {
    std::vector<std::vector<float>> results{attend(batch, kind, window)};
    if (gpu != nullptr) results.push_back(attend(*gpu, batch, kind, window));
    for (const std::vector<float>& result : results) {
      EXPECT_TRUE(same_bits(result, expected))
          << "layout " << static_cast<int>(kind) << ", head_dim " << heads.head_dim << ", heads " << heads.n_heads
          << "/" << heads.n_kv_heads << ", bytes " << bytes_of(heads.numbers) << ", window " << window;
    }
  }
}

TEST(GpuAttention, HasTheBitsOfTheCpuForEveryHeadShape) {
  for (const int head_dim : {64, 80, 96, 128, 16, 256}) {
    for (const auto& [n_heads, n_kv_heads] : {std::pair(2, 2), std::pair(4, 1), std::pair(7, 1)}) {
      expect_bits_of_the_cpu({head_dim, n_heads, n_kv_heads}, {{40, 3}, {33, 1}});
      expect_bits_of_the_cpu({head_dim, n_heads, n_kv_heads, KvNumbers::kInt8}, {{40, 3}, {2, 1}});
    }
  }
}

TEST(GpuAttention, HasTheBitsOfTheCpuForCutAndSharedTilesOfEveryHeadShape) {
  for (const int head_dim : {64, 80, 96, 128, 16, 256}) {
    for (const KvNumbers numbers : {KvNumbers::kInt16, KvNumbers::kInt8}) {
      expect_bits_of_the_cpu({head_dim, 4, 1, numbers}, {{400, 3}, {395, 1, true, 0, 11}, {350, 1}, {20, 1}});
    }
  }
}

TEST(GpuAttention, HasTheBitsOfTheCpuForEveryLength) {
  // Tiles have 16 rows: with 3 heads a group, 5, 6 and 11 tokens are below, above and well above one.
  for (const int length : {1, 31, 32, 33, 64, 65}) {
    std::vector<Sequence> sequences;
    for (const int n_rows : {1, 2, 5, 6, 11}) {
      if (n_rows <= length) sequences.push_back({length - n_rows, n_rows});
    }
    expect_bits_of_the_cpu({32, 3, 1}, sequences);
  }
  expect_bits_of_the_cpu({32, 2, 1}, {{0, 40, false}, {64, 33, false}, {70, 2}});  // prompts beside a decode
  expect_bits_of_the_cpu({16, 40, 1}, {{33, 1}, {5, 2}});                          // a group of more heads than a tile
}

TEST(GpuAttention, HasTheBitsOfTheCpuForOneLongSequenceAmongShortOnes) {
  expect_bits_of_the_cpu({32, 2, 1}, {{3, 1}, {700, 4}, {0, 1}, {31, 2}, {12, 1}});
}

TEST(GpuAttention, HasTheBitsOfTheCpuForSharedPrefixes) {
  // Three samples of one prompt of 4 pages; a fourth has forked from the first after 2 pages; another prompt's.
  const std::vector<Sequence> samples{
      {140, 3}, {131, 1, true, 0, 4}, {150, 8, true, 0, 4}, {90, 2, true, 0, 2}, {77, 1}};
  expect_bits_of_the_cpu({64, 4, 2}, samples);
  expect_bits_of_the_cpu({64, 4, 2, KvNumbers::kInt8}, samples);
  // A long prompt, so that shared chunks are cut into runs as well.
  expect_bits_of_the_cpu({32, 2, 1}, {{400, 2}, {395, 1, true, 0, 12}, {420, 3, true, 0, 12}});
}

// As where sizes are rounded up: bounds that are met by no sequence, sequences without rows, one with rows that nobody
// asked for. Nothing to be cut or shared, a long context, a shared one that is cut.
TEST(GpuAttention, BoundsMayBeLargerThanWhatTheyBound) {
  const std::vector<std::vector<Sequence>> batches{
      {{10, 2}, {0, 0}, {3, 1}, {0, 7}},
      {{400, 3}, {20, 1}, {0, 5}, {0, 0}},
      {{400, 2}, {395, 1, true, 0, 12}, {420, 3, true, 0, 12}, {0, 2}, {0, 0}, {0, 0}, {0, 0}, {0, 0}}};
  for (const auto& sequences : batches) {
    for (const int window : {0, 100}) {
      const Batch batch({32, 3, 1}, sequences, window);
      for (const GpuAttentionKind kind : {GpuAttentionKind::kSplitGrouped, GpuAttentionKind::kFused}) {
        for (const int max_kv_len : {512, 4096}) {
          const auto device = open_emulated_device();
          EXPECT_TRUE(same_bits(attend(*device, batch, kind, window, max_kv_len), batch.expected()))
              << sequences.size() << " sequences, window " << window << ", bound " << max_kv_len;
        }
      }
    }
  }
}

TEST(GpuAttention, HasTheBitsOfTheCpuForWindowsAndCappedScores) {
  const std::vector<Sequence> sequences{{126, 6}, {300, 2, true}, {310, 1, true, 1, 9}, {60, 1}, {64, 20, false}};
  for (const int window : {1, 5, 32, 33, 100}) expect_bits_of_the_cpu({32, 3, 1}, sequences, window);
  expect_bits_of_the_cpu({32, 3, 1, KvNumbers::kInt16, 5.0f, 0.3f}, sequences, 40);
  expect_bits_of_the_cpu({32, 3, 1, KvNumbers::kInt8, 5.0f}, sequences);
}

TEST(GpuAttention, NeedsNoOrderOfThreads) {
  const Batch batch({32, 3, 1}, {{330, 2}, {321, 1, true, 0, 9}, {20, 7, false}}, 0);
  testing::expect_any_order_of_threads(batch, batch.expected());
}

TEST(GpuAttention, ARowsBitsDoNotDependOnItsBatch) {
  const HeadShape heads{32, 4, 2};
  const std::vector<Sequence> sequences{
      {40, 1, true, -1, 0, 11}, {290, 3, true, -1, 0, 12}, {0, 2, true, -1, 0, 13}, {95, 7, true, -1, 0, 14}};
  const size_t row_len = 4 * 32;
  const auto results_of = [&](const std::vector<Sequence>& batch_sequences, GpuAttentionKind kind) {
    const Batch batch(heads, batch_sequences, 0);
    const std::vector<float> out = attend(batch, kind, 0);
    std::map<unsigned, std::vector<float>> by_text;
    for (size_t i = 0; i < batch_sequences.size(); ++i) {
      const auto begin =
          out.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(batch.segments[i].first_row) * row_len);
      by_text[batch_sequences[i].text] = {
          begin, begin + static_cast<ptrdiff_t>(static_cast<size_t>(batch.segments[i].n_rows) * row_len)};
    }
    return by_text;
  };
  for (const GpuAttentionKind kind : kKinds) {
    const auto all = results_of(sequences, kind);
    std::vector<Sequence> permuted{sequences[2], sequences[3], sequences[0], sequences[1]};
    EXPECT_EQ(results_of(permuted, kind), all);
    for (const Sequence& alone : sequences) EXPECT_EQ(results_of({alone}, kind).at(alone.text), all.at(alone.text));
  }
  // Negative control: another text is another result.
  EXPECT_NE(results_of({sequences[0]}, GpuAttentionKind::kFused).at(11),
            results_of(sequences, GpuAttentionKind::kFused).at(14));
}

// ---------------------------------------------------------------------------------------------------------------------
// Plans

/// The plan of `fused` as the device makes it, and who meets what by it.
struct PlannedBatch {
  std::vector<int32_t> tokens;
  std::vector<AttentionTile> tiles[kFusedStages];
};

PlannedBatch plan_fused(const Batch& batch, int window, int n_blocks, int max_weights) {
  const std::unique_ptr<Device> device = open_emulated_device();
  Uploaded uploaded(*device, batch, window);
  const int max_tiles = max_fused_tiles(static_cast<int>(batch.rows.size()), static_cast<int>(batch.segments.size()),
                                        uploaded.args.group_size(), max_weights);
  PlannedBatch planned;
  planned.tokens.resize(batch.rows.size());
  DeviceBuffer tokens(device.get(), planned.tokens.size() * sizeof(int32_t));
  DeviceBuffer tiles(device.get(), kFusedStages * static_cast<size_t>(max_tiles) * sizeof(AttentionTile));
  DeviceBuffer counts(device.get(), kFusedStages * sizeof(int32_t));
  const int n_counters =
      max_fused_counters(max_tiles, static_cast<int>(batch.segments.size()), uploaded.args.kv.n_kv_heads);
  DeviceBuffer counters(device.get(), static_cast<size_t>(n_counters) * sizeof(int32_t));
  PlanFused kernel{uploaded.args, {}, n_blocks, /*min_saved_bytes=*/0};
  kernel.plan.tokens = tokens.as<int32_t>();
  for (int stage = 0; stage < kFusedStages; ++stage)
    kernel.plan.tiles[stage] = tiles.as<AttentionTile>() + stage * max_tiles;
  kernel.plan.n_tiles = counts.as<int32_t>();
  kernel.plan.counters = counters.as<uint32_t>();
  kernel.plan.max_weights = max_weights;
  launch(*device, kernel, kernel.shape());
  std::vector<AttentionTile> all(kFusedStages * static_cast<size_t>(max_tiles));
  int32_t n_tiles[kFusedStages];
  device->download(planned.tokens.data(), tokens.data(), planned.tokens.size() * sizeof(int32_t));
  device->download(all.data(), tiles.data(), all.size() * sizeof(AttentionTile));
  device->download(n_tiles, counts.data(), sizeof(n_tiles));
  EXPECT_TRUE(device->synchronize().ok());
  for (int stage = 0; stage < kFusedStages; ++stage) {
    EXPECT_LE(n_tiles[stage], max_tiles);
    planned.tiles[stage].assign(all.begin() + stage * max_tiles, all.begin() + stage * max_tiles + n_tiles[stage]);
  }
  return planned;
}

/// Walks the stages in their order. Tiles wait for as much as those in front of them raise.
std::string find_fault_of_counters(const PlannedBatch& planned, int n_slices) {
  std::map<int, int> counters;
  for (int stage = 0; stage < kFusedStages; ++stage) {
    for (const AttentionTile& tile : planned.tiles[stage]) {
      if ((tile.awaits >= 0) != (tile.goes_on > 0)) return "a tile waits for nothing, or not for its state";
      if (tile.awaits >= 0 && counters[tile.awaits] != tile.n_awaited)
        return "a tile waits for more or less than comes";
      if (tile.awaits >= 0 && tile.awaits == tile.raises) return "a tile waits for itself";
    }
    for (const AttentionTile& tile : planned.tiles[stage]) {
      if (tile.raises >= 0) counters[tile.raises] += stage == kValueTiles ? n_slices : 1;
    }
  }
  return {};
}

/// Walks the stages in their order. Every row must meet the chunks that it sees once and in ascending order, go on from
/// the state that it was left with, and have its result written once, at the end; weights are computed before they are
/// read, by one tile each. Empty: all is well.
std::string find_fault(const Batch& batch, const PlannedBatch& planned, int group_size, int window) {
  if (std::string fault = find_fault_of_counters(planned, /*n_slices=*/1); !fault.empty()) return fault;
  struct Row {
    int next_chunk = 0;
    int state = 0;
    bool is_done = false;
  };
  std::map<std::pair<int, int>, Row> rows;                   // by row of the batch and head of the group
  std::map<int, std::tuple<int, int, int, int>> weights_of;  // by place: tokens_begin, first_row, chunk, n_rows
  for (int stage = 0; stage < kFusedStages; ++stage) {
    for (const AttentionTile& tile : planned.tiles[stage]) {
      if (tile.n_rows < 1 || tile.n_rows > kTileRows || tile.first_chunk >= tile.end_chunk) return "an empty tile";
      for (int chunk = tile.first_chunk; chunk < tile.end_chunk && tile.weights >= 0; ++chunk) {
        const int place = tile.weights + chunk - tile.first_chunk;
        const std::tuple<int, int, int, int> what(tile.tokens_begin, tile.first_row, chunk, tile.n_rows);
        if (stage == kFirstTiles && !weights_of.emplace(place, what).second) return "weights are overwritten";
        if (stage == kValueTiles && weights_of[place] != what) return "values of other weights";
      }
      if (stage == kFirstTiles && tile.weights >= 0) continue;
      for (int x = 0; x < tile.n_rows; ++x) {
        const int in_tile = tile.first_row + x;
        const int row = planned.tokens[static_cast<size_t>(tile.tokens_begin + in_tile / group_size)];
        const int position = batch.rows[static_cast<size_t>(row)].position;
        const int first_seen = window > 0 ? std::max(0, position - window + 1) : 0;
        Row& state = rows[{row, in_tile % group_size}];
        if (state.is_done) return "a row goes on behind its result";
        if (tile.goes_on != state.state) return "a row goes on from another state";
        const int needed = std::max(state.next_chunk, first_seen / kPageLen);
        if (tile.first_chunk > needed || tile.first_chunk < state.next_chunk) return "a chunk is left out or met twice";
        state.next_chunk = tile.end_chunk;
        state.state = tile.leaves_state;
        state.is_done = tile.leaves_state == 0;
        if (state.is_done && state.next_chunk <= position / kPageLen) return "the last chunk is missing";
        const DeviceSegment& segment =
            batch.segments[static_cast<size_t>(batch.rows[static_cast<size_t>(row)].segment)];
        for (int chunk = tile.first_chunk; chunk < std::min(tile.end_chunk, segment.n_pages); ++chunk) {
          const int32_t* read = &batch.page_ids[static_cast<size_t>(tile.first_page)];
          const int32_t* own = &batch.page_ids[static_cast<size_t>(segment.first_page)];
          if (read[chunk] != own[chunk]) return "another sequence's page is read";
        }
      }
    }
  }
  for (size_t row = 0; row < batch.rows.size(); ++row) {
    for (int head = 0; head < group_size; ++head) {
      if (!rows[{static_cast<int>(row), head}].is_done) return "a row without a result";
    }
  }
  return {};
}

std::vector<Sequence> random_sequences(std::mt19937& random) {
  std::vector<Sequence> sequences;
  const int n = 1 + static_cast<int>(random() % 9);
  for (int i = 0; i < n; ++i) {
    Sequence sequence{static_cast<int>(random() % 900), 1 + static_cast<int>(random() % 9)};
    if (random() % 5 == 0) sequence.is_decode = false;
    if (i > 0 && random() % 2 == 0) {
      sequence.prefix = static_cast<int>(random() % static_cast<unsigned>(i));
      const Sequence& parent = sequences[static_cast<size_t>(sequence.prefix)];
      const int most = std::min(parent.start, sequence.start) / kPageLen;
      sequence.n_shared_chunks = most > 0 ? static_cast<int>(random() % static_cast<unsigned>(most + 1)) : 0;
    }
    sequences.push_back(sequence);
  }
  return sequences;
}

TEST(FusedPlan, MeetsEveryChunkOfEveryRowOnceAndInOrder) {
  std::mt19937 random(3);
  int n_shared = 0;
  int n_cut = 0;
  for (int i = 0; i < 150; ++i) {
    const HeadShape heads{16, static_cast<int>(1 + random() % 5), 1};
    const int window = random() % 3 == 0 ? 1 + static_cast<int>(random() % 200) : 0;
    const Batch batch(heads, random_sequences(random), window, /*has_text=*/false);
    const int max_weights = random() % 4 == 0 ? 10 : 1000;
    const PlannedBatch planned = plan_fused(batch, window, random() % 2 == 0 ? 1000 : 0, max_weights);
    EXPECT_EQ(find_fault(batch, planned, heads.n_heads, window), "") << i;
    n_shared += planned.tiles[kLateTiles].empty() ? 0 : 1;
    n_cut += planned.tiles[kValueTiles].empty() ? 0 : 1;
  }
  EXPECT_GT(n_shared, 10);
  EXPECT_GT(n_cut, 30);
}

TEST(FusedPlan, FaultyPlansAreFound) {  // the negative control of the test above
  const Batch batch({16, 3, 1}, {{600, 2}, {610, 1, true, 0, 15}}, 0, /*has_text=*/false);
  const PlannedBatch good = plan_fused(batch, 0, 1000, 1000);
  ASSERT_EQ(find_fault(batch, good, 3, 0), "");
  int n_found = 0;
  int n = 0;
  const auto spoil = [&](auto change) {
    PlannedBatch bad = good;
    change(bad);
    ++n;
    n_found += find_fault(batch, bad, 3, 0).empty() ? 0 : 1;
  };
  spoil([](PlannedBatch& bad) { bad.tiles[kLateTiles][0].first_chunk -= 1; });
  spoil([](PlannedBatch& bad) { bad.tiles[kLateTiles][0].first_chunk += 1; });
  spoil([](PlannedBatch& bad) { bad.tiles[kValueTiles][0].end_chunk -= 1; });
  spoil([](PlannedBatch& bad) { bad.tiles[kValueTiles][0].weights += 1; });
  spoil([](PlannedBatch& bad) { bad.tiles[kFirstTiles].back().weights -= 1; });
  spoil([](PlannedBatch& bad) { bad.tiles[kLateTiles].pop_back(); });
  spoil([](PlannedBatch& bad) { bad.tiles[kLateTiles][0].goes_on = 0; });
  spoil([](PlannedBatch& bad) { bad.tiles[kLateTiles][1].first_page = bad.tiles[kLateTiles][0].first_page; });
  spoil([](PlannedBatch& bad) { bad.tiles[kLateTiles][1].n_awaited += 1; });
  spoil([](PlannedBatch& bad) { bad.tiles[kLateTiles][0].awaits = -1; });
  spoil([](PlannedBatch& bad) { bad.tiles[kValueTiles][0].n_awaited -= 1; });
  spoil([](PlannedBatch& bad) { bad.tiles[kFirstTiles].back().raises = -1; });
  EXPECT_EQ(n_found, n);
}

TEST(CountTiles, FindsEveryTileOfEverySegment) {
  for (const int n_segments : {1, 2, 255, 256, 257, 600}) {
    std::mt19937 random(static_cast<unsigned>(n_segments));
    std::vector<DeviceSegment> segments(static_cast<size_t>(n_segments));
    for (DeviceSegment& segment : segments) {
      segment.n_rows = static_cast<int32_t>(random() % 30);
      segment.is_decode = static_cast<int32_t>(random() % 2);
    }
    for (const int leaves_out : {0, 1}) {
      const std::unique_ptr<Device> device = open_emulated_device();
      const DeviceBuffer memory = upload(*device, segments);
      DeviceBuffer begins(device.get(), segments.size() * sizeof(int32_t) + sizeof(int32_t));
      DeviceBatch batch;
      batch.segments = memory.as<DeviceSegment>();
      batch.n_segments = n_segments;
      const CountTiles kernel{batch, 3, leaves_out, begins.as<int32_t>()};
      launch(*device, kernel, kernel.shape());
      std::vector<int32_t> found(segments.size() + 1);
      device->download(found.data(), begins.data(), found.size() * sizeof(int32_t));
      ASSERT_TRUE(device->synchronize().ok());
      int idx = 0;
      for (size_t i = 0; i < segments.size(); ++i) {
        const int n = leaves_out != 0 && segments[i].is_decode != 0 ? 0 : n_tiles_of(segments[i], 3);
        for (int tile = 0; tile < n; ++tile, ++idx) {
          ASSERT_EQ(find_range(found.data(), n_segments, idx), static_cast<int>(i));
          ASSERT_EQ(idx - found[i], tile);
        }
      }
      EXPECT_EQ(found.back(), idx);
    }
  }
}

}  // namespace
}  // namespace bass::cuda
