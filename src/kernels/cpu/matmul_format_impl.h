// How the matrix products read a tile of packed weights: a "source" gives, for one group after another, the quants of
// 16 channels as vectors of unsigned bytes, and the channels' scales and minima. Include after a simd_*.h.
#pragma once

#include "kernels/cpu/activations.h"
#include "kernels/cpu/groups_ahead_impl.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/pack.h"

namespace bass::cpu::BASS_SIMD_NAMESPACE {
namespace detail {

inline constexpr int kGroupQuads = kGroupLen / 4;
inline constexpr size_t kQuadBytes = 64;  // 4 elements of 16 channels

/// What quants mean, however they lie: kBits of each, from -kOffset on; kParts of the format's own groups in one of the
/// activations'.
template <int kBitsOf, int kOffsetOf, bool kHasMinimumOf, int kPartsOf>
struct QuantMeaning {
  static constexpr int kBits = kBitsOf;
  static constexpr int kOffset = kOffsetOf;
  static constexpr bool kHasMinimum = kHasMinimumOf;
  static constexpr int kParts = kPartsOf;
};

template <QuantFormat kFormatOf>
using MeaningOf =
    QuantMeaning<kFormatOf.bits, kFormatOf.offset, kFormatOf.has_minimum, kGroupLen / kFormatOf.group_len>;

template <DType kType>
struct FormatTraits : MeaningOf<quant_format(kType)> {
  using Meaning = MeaningOf<quant_format(kType)>;
  static constexpr QuantFormat kFormat = quant_format(kType);
  static constexpr size_t kGroupBytes =  // a group's share of a tile
      quant_tile_layout(kFormat, kSuperBlockLen / kGroupLen).end / (kSuperBlockLen / kGroupLen);
};

/// Quad kQuad of a group: elements 4 kQuad .. 4 kQuad + 3 of 16 channels as unsigned bytes. planes: the group's quants,
/// from the plane on whose lowest bit is bit kTo of a quant; kBits: bits of those planes.
template <int kBits, int kQuad, int kTo = 0>
BASS_SIMD_INLINE I32x16 load_quad(const std::byte* planes) {
  constexpr int kPlane = kBits >= 8 ? 8 : kBits >= 4 ? 4 : kBits >= 2 ? 2 : 1;
  I32x16 q = load_i32(planes + kQuad % kPlane * kQuadBytes);
  if constexpr (kPlane < 8) {
    constexpr int kRight = kQuad / kPlane * kPlane - kTo;
    constexpr int kMask = ((1 << kPlane) - 1) << kTo;
    if constexpr (kRight > 0) q = shift_right_logical<kRight>(q);
    if constexpr (kRight < 0) q = shift_left<-kRight>(q);
    q = bit_and(q, broadcast_i32(0x01010101 * kMask));
  }
  if constexpr (kBits > kPlane) {
    q = bit_or(q, load_quad<kBits - kPlane, kQuad, kTo + kPlane>(planes + kPlane * kQuadBytes));
  }
  return q;
}

/// A tile as pack.h lays it out.
template <DType kType>
class PackedSource {
  static constexpr size_t kSuperGroups = kSuperBlockLen / kGroupLen;

 public:
  using Traits = FormatTraits<kType>;
  static constexpr size_t kGroupBytes = Traits::kGroupBytes;
  /// For GroupsAhead::ask.
  template <int kTiles>
  static constexpr int kStagedLines = share_lines<kTiles>(kGroupBytes);

  PackedSource(const std::byte* tile, int n_groups)
      : tile_(tile), layout_(quant_tile_layout(Traits::kFormat, static_cast<size_t>(n_groups))) {}

  /// Elements 4i .. 4i + 3 of group g.
  template <int kQuad>
  BASS_SIMD_INLINE I32x16 quad(int g) const {
    return load_quad<Traits::kFormat.bits, kQuad>(tile_ + static_cast<size_t>(g) * packed_group_bytes(Traits::kFormat));
  }
  /// Of part kPart of group g.
  template <int kPart>
  BASS_SIMD_INLINE F32x16 scale(int g) const {
    return number(layout_.scales, layout_.super_scales, static_cast<size_t>(g) * Traits::kParts + kPart);
  }
  template <int kPart>
  BASS_SIMD_INLINE F32x16 minimum(int g) const {
    const F32x16 m = number(layout_.minima, layout_.super_minima, static_cast<size_t>(g) * Traits::kParts + kPart);
    return Traits::kFormat.is_k ? neg(m) : m;
  }

  /// Cache lines that a group needs.
  static constexpr int kGroupLines = static_cast<int>(packed_group_bytes(Traits::kFormat) / 64) +
                                     (Traits::kFormat.is_k ? 2 : 1) * (Traits::kHasMinimum ? 2 : 1);
  /// Where they lie: line {offset, stride} of group g `offset + g * stride` bytes from the tile's begin. out:
  /// [kGroupLines]
  template <class Line>
  void lines(Line* out) const {
    constexpr auto kQuantBytes = static_cast<ptrdiff_t>(packed_group_bytes(Traits::kFormat));
    for (ptrdiff_t at = 0; at < kQuantBytes; at += 64) *out++ = {at, kQuantBytes};
    constexpr ptrdiff_t kScaleBytes = kTileLen * Traits::kParts * (Traits::kFormat.is_k ? 1 : 2);
    constexpr ptrdiff_t kSuperBytes = kTileLen * 2 / kSuperGroups;  // groups of a super-block share a vector
    *out++ = {static_cast<ptrdiff_t>(layout_.scales), kScaleBytes};
    if constexpr (Traits::kHasMinimum) *out++ = {static_cast<ptrdiff_t>(layout_.minima), kScaleBytes};
    if constexpr (Traits::kFormat.is_k) *out++ = {static_cast<ptrdiff_t>(layout_.super_scales), kSuperBytes};
    if constexpr (Traits::kFormat.is_k && Traits::kHasMinimum) {
      *out++ = {static_cast<ptrdiff_t>(layout_.super_minima), kSuperBytes};
    }
  }

 private:
  BASS_SIMD_INLINE F32x16 half_vector(size_t part, size_t idx) const {
    return load_f16(reinterpret_cast<const uint16_t*>(tile_ + part) + idx * kTileLen);
  }
  /// An f16, or a whole number times the f16 of its super-block: fl(d s).
  BASS_SIMD_INLINE F32x16 number(size_t part, size_t super_part, size_t idx) const {
    if constexpr (!Traits::kFormat.is_k) {
      return half_vector(part, idx);
    } else {
      const F32x16 factor = half_vector(super_part, idx / (kSuperGroups * Traits::kParts));
      return mul(factor, to_f32(load_i8(tile_ + part + idx * kTileLen)));
    }
  }

  const std::byte* tile_;
  QuantTileLayout layout_;
};

/// Groups of a tile with a byte a quant and fp32 scales, as the first block of rows leaves them for the others.
template <int kParts>
struct alignas(64) UnpackedGroup {
  std::byte quads[kGroupQuads * kQuadBytes];
  float scale[kParts][kTileLen];
  float minimum[kParts][kTileLen];
};

/// Reads unpacked groups, of which the first is group `first_group` of the tile.
template <class Meaning>
class UnpackedSource {
 public:
  using Traits = Meaning;
  using Group = UnpackedGroup<Traits::kParts>;
  template <int kTiles>
  static constexpr int kStagedLines = 0;  // one of several blocks

  UnpackedSource(const Group* groups, int first_group) : groups_(groups), first_group_(first_group) {}

  template <int kQuad>
  BASS_SIMD_INLINE I32x16 quad(int g) const {
    return load_i32(groups_[g - first_group_].quads + kQuad * kQuadBytes);
  }
  template <int kPart>
  BASS_SIMD_INLINE F32x16 scale(int g) const {
    return load(groups_[g - first_group_].scale[kPart]);
  }
  template <int kPart>
  BASS_SIMD_INLINE F32x16 minimum(int g) const {
    return load(groups_[g - first_group_].minimum[kPart]);
  }

 private:
  const Group* groups_;
  int first_group_;
};

/// Reads another source and leaves what it has read as unpacked groups.
template <class Source>
class UnpackingSource {
 public:
  using Traits = typename Source::Traits;
  using Group = UnpackedGroup<Traits::kParts>;
  template <int kTiles>
  static constexpr int kStagedLines = 0;

  UnpackingSource(const Source& source, Group* groups, int first_group)
      : source_(source), groups_(groups), first_group_(first_group) {}

  template <int kQuad>
  BASS_SIMD_INLINE I32x16 quad(int g) const {
    const I32x16 quants = source_.template quad<kQuad>(g);
    store_i32(groups_[g - first_group_].quads + kQuad * kQuadBytes, quants);
    return quants;
  }
  template <int kPart>
  BASS_SIMD_INLINE F32x16 scale(int g) const {
    const F32x16 scale = source_.template scale<kPart>(g);
    store(groups_[g - first_group_].scale[kPart], scale);
    return scale;
  }
  template <int kPart>
  BASS_SIMD_INLINE F32x16 minimum(int g) const {
    const F32x16 minimum = source_.template minimum<kPart>(g);
    store(groups_[g - first_group_].minimum[kPart], minimum);
    return minimum;
  }

 private:
  Source source_;
  Group* groups_;
  int first_group_;
};

}  // namespace detail
}  // namespace bass::cpu::BASS_SIMD_NAMESPACE
