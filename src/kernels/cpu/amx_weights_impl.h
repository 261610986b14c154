// Weights as products of tiles read them: groups with a signed byte a quant, which a tile's first panel unpacks and the
// others find. Include after matmul_format_impl.h.
//
// They are unpacked beside products, a few groups in front of them: masks and stores use units that products leave idle
// (docs/performance/emerald-rapids.md).
#pragma once

#include <utility>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/matmul_format_impl.h"

namespace bass::cpu::BASS_SIMD_NAMESPACE {
namespace detail {

/// What a format's weights are on tiles: formats that agree in this share the code.
template <int kPartsOfGroup, bool kMinimum>
struct TileKind {
  static constexpr int kParts = kPartsOfGroup;
  static constexpr bool kHasMinimum = kMinimum;
};

/// Quad kQuad of a group as signed bytes.
template <int kQuad, class Packed>
BASS_SIMD_INLINE I32x16 signed_quad(const Packed& packed, int g) {
  constexpr int kOffset = Packed::Traits::kFormat.offset;
  const I32x16 quants = packed.template quad<kQuad>(g);
  if constexpr (kOffset == 0) return quants;
  return {_mm512_sub_epi8(quants.v, _mm512_set1_epi8(static_cast<char>(kOffset)))};
}

template <class Packed, int kPart>
BASS_SIMD_INLINE void unpack_numbers(const Packed& packed, int g, UnpackedGroup<Packed::Traits::kParts>* out) {
  store(out->scale[kPart], packed.template scale<kPart>(g));
  if constexpr (Packed::Traits::kHasMinimum) store(out->minimum[kPart], packed.template minimum<kPart>(g));
}

template <class Packed>
BASS_SIMD_INLINE void unpack_group(const Packed& packed, int g, UnpackedGroup<Packed::Traits::kParts>* out) {
  [&]<size_t... kQuad>(std::index_sequence<kQuad...>) {
    (store_i32(out->quads + kQuad * kQuadBytes, signed_quad<static_cast<int>(kQuad)>(packed, g)), ...);
  }
  (std::make_index_sequence<kGroupQuads>());
  unpack_numbers<Packed, 0>(packed, g, out);
  if constexpr (Packed::Traits::kParts == 2) unpack_numbers<Packed, 1>(packed, g, out);
}

/// Groups of a tile for a panel that finds them unpacked.
template <class KindOf>
struct UnpackedWeights {
  using Kind = KindOf;
  const UnpackedGroup<Kind::kParts>* groups;  // [n_groups] with signed quants
  int n_groups;

  [[nodiscard]] BASS_SIMD_INLINE const UnpackedGroup<Kind::kParts>& group(int g) const { return groups[g]; }
  BASS_SIMD_INLINE void begin() const {}
  BASS_SIMD_INLINE void go_on(int) const {}
};

/// Groups of a tile for the panel that unpacks them, and that asks for the tile behind.
template <class Packed>
struct UnpackingWeights {
  using Kind = TileKind<Packed::Traits::kParts, Packed::Traits::kHasMinimum>;
  UnpackedGroup<Kind::kParts>* groups;  // [n_groups], written
  int n_groups;
  Packed packed;
  int first_group;             // the tile's group that becomes groups[0]
  const std::byte* next_tile;  // asked for into the second level, as it lies

  [[nodiscard]] BASS_SIMD_INLINE const UnpackedGroup<Kind::kParts>& group(int g) const { return groups[g]; }
  /// Before the first product.
  BASS_SIMD_INLINE void begin() const {
    for (int g = 0; g < kGroupsAhead; ++g) unpack(g);
  }
  /// Once for each group in work.
  BASS_SIMD_INLINE void go_on(int g) const {
    constexpr int kLines = static_cast<int>((Packed::kGroupBytes + 63) / 64);
    const std::byte* asked = next_tile + ptrdiff_t{first_group + g} * kLines * 64;
#pragma GCC unroll kUnrolled
    for (int i = 0; i < kLines; ++i) prefetch_l2(asked + i * 64);
    unpack(g + kGroupsAhead);
  }

 private:
  // A product begins two groups before it is added up, and what it reads must have left the store buffer.
  static constexpr int kGroupsAhead = 4;

  BASS_SIMD_INLINE void unpack(int g) const {
    if (g < n_groups) unpack_group(packed, first_group + g, &groups[g]);
  }
};

}  // namespace detail
}  // namespace bass::cpu::BASS_SIMD_NAMESPACE
