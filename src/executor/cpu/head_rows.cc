#include "executor/cpu/head_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "kernels/cpu/pack.h"
#include "tensor/quantise.h"

namespace bass::cpu {
namespace {

/// The rows that become one tile, on their way to another type.
struct Requantiser {
  DType type;
  size_t row_bytes;
  std::vector<float> row;        // [n_in]
  std::vector<std::byte> block;  // [kTileLen, row_bytes]

  Requantiser(DType to, int n_in)
      : type(to),
        row_bytes(static_cast<size_t>(n_in / dtype_info(to).block_len) *
                  static_cast<size_t>(dtype_info(to).block_bytes)),
        row(static_cast<size_t>(n_in)),
        block(kTileLen * row_bytes) {}

  /// ids: of the tile's rows. False if a number does not fit the type.
  [[nodiscard]] bool pack(const PackedMatrix& head, std::span<const int32_t> ids, std::byte* tile) {
    for (size_t i = 0; i < ids.size(); ++i) {
      unpack_row(head, ids[i], row.data());
      if (!quantise_row(type, row.data(), head.n_in, block.data() + i * row_bytes)) return false;
    }
    pack_tiles({type, static_cast<int>(ids.size()), head.n_in, block.data(), row_bytes, {}}, {0, 1}, tile);
    return true;
  }
};

bool stays_as_it_is(const PackedMatrix& head, std::optional<DType> type) {
  constexpr int kBits = 4;
  return !type || head.n_in % kGroupLen != 0 || (head.is_quantised() && quant_format(head.type).bits <= kBits);
}

}  // namespace

Result<HeadRows> HeadRows::pack(const PackedMatrix& head, std::span<const int32_t> ids, std::optional<DType> type,
                                ThreadTeam* team) {
  const bool is_copied = stays_as_it_is(head, type);
  HeadRows rows;
  PackedMatrix& matrix = rows.matrix_;
  matrix = {is_copied ? head.type : *type, static_cast<int>(ids.size()), head.n_in, nullptr, nullptr};
  const size_t size_bytes = packed_bytes(matrix.type, matrix.n_out, matrix.n_in);
  rows.memory_ = AlignedBuffer(size_bytes);
  if (!rows.memory_.ok()) {
    return resource_exhausted(fmt::format("no memory for {} KiB of the main model's head", size_bytes >> 10));
  }
  matrix.data = rows.memory_.data();
  if (head.bias != nullptr) {
    for (const int32_t id : ids) rows.bias_.push_back(head.bias[id]);
    matrix.bias = rows.bias_.data();
  }
  const size_t tile_bytes = packed_tile_bytes(matrix.type, matrix.n_in);
  std::vector<Requantiser> requantisers;  // of the team's threads, which must not allocate
  if (!is_copied) requantisers.assign(static_cast<size_t>(team->n_threads()), Requantiser(*type, head.n_in));
  std::atomic<bool> fits{true};
  team->run([&](const TeamContext& context) {
    const WorkRange tiles = context.share(matrix.n_tiles());
    if (is_copied) return gather_tiles(head, ids, tiles, rows.memory_.data());
    Requantiser& requantiser = requantisers[static_cast<size_t>(context.thread_idx())];
    for (auto t = static_cast<size_t>(tiles.begin); t < static_cast<size_t>(tiles.end); ++t) {
      const auto tile_ids = ids.subspan(t * kTileLen, std::min<size_t>(kTileLen, ids.size() - t * kTileLen));
      if (!requantiser.pack(head, tile_ids, rows.memory_.data() + t * tile_bytes)) fits = false;
    }
  });
  if (!fits) return invalid_file("the main model's head holds numbers that a draft's 4-bit rows of it cannot hold");
  return rows;
}

}  // namespace bass::cpu
