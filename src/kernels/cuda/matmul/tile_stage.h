// What a block of TileProduct works on at a time, in shared memory: the weights of some groups of a tile, and the same
// groups of its rows of activations.
#pragma once

#include "kernels/cuda/matmul/product.h"

namespace bass::cuda {

/// Weights of kGroups groups of a tile, as they lie in the matrix: quants, scales, minima, and scales and minima of
/// super blocks, one behind the other.
template <int kBits, ScaleKind kKind, bool kHasMinima, int kGroups>
struct WeightStage {
  static constexpr bool kIsPlain = kKind == ScaleKind::kPlain;
  static constexpr int kDots = kKind == ScaleKind::kWholeHalf ? 2 : 1;  // of a group
  static constexpr int kSuperGroups = kSuperBlockLen / kGroupLen;
  static constexpr int kQuantBytes = kChannels * kGroupLen * kBits / 8;       // of a group
  static constexpr int kScaleBytes = kChannels * (kIsPlain ? 2 : 1) * kDots;  // of a group
  static constexpr int kSuperBytes = kIsPlain ? 0 : kChannels * 2;            // of a super block
  static constexpr int kMinima = kHasMinima ? 1 : 0;
  static constexpr int kScalesAt = kGroups * kQuantBytes;
  static constexpr int kMinimaAt = kScalesAt + kGroups * kScaleBytes;
  static constexpr int kSuperScalesAt = kMinimaAt + kMinima * kGroups * kScaleBytes;
  static constexpr int kSuperMinimaAt = kSuperScalesAt + kGroups / kSuperGroups * kSuperBytes;
  static constexpr int kBytes = kSuperMinimaAt + kMinima * kGroups / kSuperGroups * kSuperBytes;
  static_assert(kGroups % kSuperGroups == 0);

  /// Copies a tile's stages, one after the other; kThreads threads share the work.
  template <int kThreads>
  class Copier {
   public:
    BASS_HD Copier(const DeviceMatrix& w, int tile, int thread, std::byte* ring)
        : n_left_(tile < w.n_tiles() ? w.n_in / kGroupLen : 0), in_stage_(thread * kCopyBytes), to_(ring + in_stage_) {
      const int64_t first_group = int64_t{tile} * (w.n_in / kGroupLen);
      const int64_t first_block = int64_t{tile} * (w.n_in / kSuperBlockLen);
      quants_ = w.quants + first_group * kQuantBytes + in_stage_;
      scales_ = w.scales + first_group * kScaleBytes + in_stage_;
      minima_ = w.minima + first_group * kScaleBytes + in_stage_;
      super_scales_ = bytes_of(w.super_scales) + first_block * kSuperBytes + in_stage_;
      super_minima_ = bytes_of(w.super_minima) + first_block * kSuperBytes + in_stage_;
    }

    /// Begins to copy what there is of the next stage, to so many bytes behind the ring's beginning.
    template <class Context>
    BASS_HD void copy_next(Context& context, int slot) {
      std::byte* to = to_ + slot;
      copy_part<kGroups, kQuantBytes>(context, quants_, to, n_left_);
      copy_part<kGroups, kScaleBytes>(context, scales_, to + kScalesAt, n_left_);
      if constexpr (kHasMinima) copy_part<kGroups, kScaleBytes>(context, minima_, to + kMinimaAt, n_left_);
      if constexpr (!kIsPlain) {
        constexpr int kBlocks = kGroups / kSuperGroups;
        const int n_blocks = n_left_ / kSuperGroups;
        copy_part<kBlocks, kSuperBytes>(context, super_scales_, to + kSuperScalesAt, n_blocks);
        if constexpr (kHasMinima) {
          copy_part<kBlocks, kSuperBytes>(context, super_minima_, to + kSuperMinimaAt, n_blocks);
        }
      }
      n_left_ -= kGroups;
      context.commit_copies();  // of nothing, too: they are counted
    }

   private:
    static constexpr int kCopyBytes = 16;

    BASS_HD static const std::byte* bytes_of(const uint16_t* p) { return reinterpret_cast<const std::byte*>(p); }

    template <int kParts, int kPartBytes, class Context>
    BASS_HD void copy_part(Context& context, const std::byte*& from, std::byte* to, int n_parts) const {
      const int n_bytes = n_parts * kPartBytes - in_stage_;
      BASS_UNROLL
      for (int at = 0; at < kParts * kPartBytes; at += kThreads * kCopyBytes) {
        const bool all_have_one = at + kThreads * kCopyBytes <= kParts * kPartBytes;
        const bool has_one = all_have_one || at + in_stage_ < kParts * kPartBytes;
        context.copy_ahead(to + at, from + at, at < n_bytes && has_one);
      }
      from += kParts * kPartBytes;
    }

    int n_left_;    // groups; behind the last stage fewer than none
    int in_stage_;  // where the thread's bytes are
    std::byte* to_;
    const std::byte *quants_, *scales_, *minima_, *super_scales_, *super_minima_;
  };

  /// Where a stage's scales and minima of a channel are.
  struct Scales {
    const std::byte* numbers;  // of group 0
    const std::byte* supers;   // of super block 0

    BASS_HD Scales(const std::byte* stage, int channel)
        : numbers(stage + kScalesAt + channel * kNumberBytes),
          supers(stage + kSuperScalesAt + channel * static_cast<int>(sizeof(uint16_t))) {}
    BASS_HD Scales at(int offset) const {
      Scales scales = *this;
      scales.numbers += offset;
      scales.supers += offset;
      return scales;
    }

    /// Of dot product `dot` of a group, of a channel so many behind this one.
    template <class Context>
    BASS_HD float scale(const Context& context, int group, int dot, int further) const {
      return number(context, numbers, supers, group * kDots + dot, further);
    }
    template <class Context>
    BASS_HD float minimum(const Context& context, int group, int dot, int further) const {
      const float m = number(context, numbers + (kMinimaAt - kScalesAt), supers + (kSuperMinimaAt - kSuperScalesAt),
                             group * kDots + dot, further);
      return kIsPlain ? m : -m;
    }

   private:
    static constexpr int kNumberBytes = kIsPlain ? 2 : 1;

    template <class Context>
    BASS_HD static float number(const Context& context, const std::byte* numbers, const std::byte* supers, int idx,
                                int further) {
      const int at = idx * kChannels + further;
      if constexpr (kIsPlain) {
        return context.from_f16(reinterpret_cast<const uint16_t*>(numbers)[at]);
      } else {
        const int super_at = idx / (kSuperGroups * kDots) * kChannels + further;
        return context.from_f16(reinterpret_cast<const uint16_t*>(supers)[super_at]) *
               static_cast<float>(reinterpret_cast<const int8_t*>(numbers)[at]);
      }
    }
  };
};

/// Activations of kGroups groups of kRows rows. They come from memory through registers, so that they can be laid out
/// as tensor cores take them: the eight words of a group of a row in the order 0, 4, 1, 5, ... A row's words are padded
/// so that those of eight rows lie in different banks. Rows and groups that are not there are zeros.
template <int kRows, int kGroups, int kDots, bool kHasMinima, int kUnits>
struct InputStage {
  static constexpr int kGroupWords = kGroupLen / 4;
  static constexpr int kRowWords = (kGroups + 1) * kGroupWords;

  static constexpr int kWords = kRows * kRowWords;
  static constexpr int kScales = kGroups * kRows;
  static constexpr int kMinima = kHasMinima ? kGroups * kDots * kRows : 0;
  BASS_HD static constexpr int bytes_of_pair(int n_planes) { return 2 * (kScales + kMinima + n_planes * kWords) * 4; }

  // Each part lies twice, for stages that take turns.
  float* scales;    // [kGroups, kRows]
  float* minima;    // [kGroups, kDots, kRows] scale times sum: what a weight's minimum is multiplied by
  uint32_t* words;  // [kRows, kRowWords]; a second plane's 2 kWords further

  InputStage() = default;
  BASS_HD InputStage(float* s, float* m, uint32_t* w) : scales(s), minima(m), words(w) {}
  /// The first of two in so much shared memory.
  BASS_HD explicit InputStage(std::byte* place)
      : scales(reinterpret_cast<float*>(place)),
        minima(scales + 2 * kScales),
        words(reinterpret_cast<uint32_t*>(minima + 2 * kMinima)) {}
  BASS_HD InputStage at(int turn) const {
    return {scales + turn * kScales, minima + turn * kMinima, words + turn * kWords};
  }

  struct alignas(16) HalfGroup {
    uint32_t words[4];
  };

  /// Brings stages from memory, one after the other. The block's threads share the work: each has one group of at most
  /// kUnits rows.
  class Loader {
   public:
    BASS_HD Loader(const DeviceActivations& x, int first_row, int n_rows, int thread, int n_threads)
        : x_(x.from_row(first_row)),
          second_(x.n_planes == 2 ? x_.q + x.plane_stride : nullptr),
          n_rows_(n_rows - first_row < kRows ? n_rows - first_row : kRows),
          n_groups_(x.n_cols / kGroupLen),
          row_(thread / kGroups),
          row_step_(n_threads / kGroups),
          group_(thread % kGroups),
          from_(row_ * n_groups_ + group_),
          n_left_(n_groups_ - group_) {}

    /// From memory to registers. Of rows that are not there these stay zeros, and of groups what they were.
    BASS_HD void load_next() {
      BASS_UNROLL
      for (int i = 0; i < kUnits; ++i) {
        if (!is_there(i)) continue;
        const int from = from_of(i);
        load_words(x_.q, from, units_[i].halves);
        units_[i].scale = x_.scale[from];
        if constexpr (kHasMinima) {
          for (int half = 0; half < 2; ++half) units_[i].sums[half] = x_.sums[int64_t{from} * 2 + half];
        }
      }
    }

    /// From registers to shared memory.
    BASS_HD void store(const InputStage& to) {
      BASS_UNROLL
      for (int i = 0; i < kUnits; ++i) {
        const Unit& unit = units_[i];
        const int row = row_of(i);
        if (row >= kRows) continue;
        uint32_t* words = to.words + row * kRowWords + group_ * kGroupWords;
        store_words(words, unit.halves);
        to.scales[group_ * kRows + row] = unit.scale;
        if constexpr (kHasMinima) {
          for (int dot = 0; dot < kDots; ++dot) {
            const int32_t sum = kDots == 2 ? unit.sums[dot] : unit.sums[0] + unit.sums[1];
            to.minima[(group_ * kDots + dot) * kRows + row] = unit.scale * static_cast<float>(sum);
          }
        }
      }
      if (second_ != nullptr) store_second(to);
      from_ += kGroups;
      n_left_ -= kGroups;
    }

   private:
    struct Unit {
      HalfGroup halves[2];
      float scale;
      int32_t sums[2];
    };

    BASS_HD int row_of(int i) const { return row_ + i * row_step_; }
    BASS_HD int from_of(int i) const { return from_ + i * row_step_ * n_groups_; }
    BASS_HD bool is_there(int i) const { return n_left_ > 0 && row_of(i) < n_rows_; }

    BASS_HD static void load_words(const int8_t* q, int from, HalfGroup (&halves)[2]) {
      const auto* words = reinterpret_cast<const HalfGroup*>(q + int64_t{from} * kGroupLen);
      halves[0] = words[0];
      halves[1] = words[1];
    }

    // The second plane of int16, without having been under way.
    BASS_HD void store_second(const InputStage& to) const {
      for (int i = 0; i < kUnits; ++i) {
        if (row_of(i) >= kRows) continue;
        HalfGroup halves[2] = {};
        if (is_there(i)) load_words(second_, from_of(i), halves);
        store_words(to.words + 2 * kWords + row_of(i) * kRowWords + group_ * kGroupWords, halves);
      }
    }

    BASS_HD static void store_words(uint32_t* words, const HalfGroup (&halves)[2]) {
      auto* to = reinterpret_cast<HalfGroup*>(words);
      const uint32_t(&first)[4] = halves[0].words;
      const uint32_t(&second)[4] = halves[1].words;
      to[0] = {{first[0], second[0], first[1], second[1]}};
      to[1] = {{first[2], second[2], first[3], second[3]}};
    }

    const DeviceActivations x_;  // from the block's first row on
    const int8_t* second_;       // the second plane's q, if there is one
    int n_rows_;                 // of the block's that are there
    int n_groups_;               // of a row
    int row_, row_step_;         // the thread's first row, and from one of its rows to the next
    int group_;                  // of a stage
    int from_;                   // the next stage's, among the groups of all rows
    int n_left_;                 // groups of a row from that one on
    Unit units_[kUnits] = {};
  };
};

}  // namespace bass::cuda
