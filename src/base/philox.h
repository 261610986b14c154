// Philox4x32-10, the counter-based random number generator of Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3" (SC 2011), and the way BASS fills its counter (docs/architecture.md, "Random numbers").
#pragma once

#include <array>
#include <cstdint>

namespace bass {

using PhiloxWords = std::array<uint32_t, 4>;

constexpr uint32_t kPhiloxMultiplier0 = 0xD2511F53u;
constexpr uint32_t kPhiloxMultiplier1 = 0xCD9E8D57u;
constexpr uint32_t kPhiloxWeyl0 = 0x9E3779B9u;
constexpr uint32_t kPhiloxWeyl1 = 0xBB67AE85u;
constexpr int kPhiloxRounds = 10;

/// The four 32-bit outputs of Philox4x32-10 for one counter under one 64-bit key.
constexpr PhiloxWords philox4x32(PhiloxWords counter, uint64_t key) {
  auto k0 = static_cast<uint32_t>(key);
  auto k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t product0 = uint64_t{kPhiloxMultiplier0} * counter[0];
    const uint64_t product1 = uint64_t{kPhiloxMultiplier1} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ k0, static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ k1, static_cast<uint32_t>(product0)};
    k0 += kPhiloxWeyl0;
    k1 += kPhiloxWeyl1;
  }
  return counter;
}

/// What a random number is for. Numbers of different purposes are independent.
enum class RandomPurpose : uint32_t { kSample = 0, kDraft = 1, kAccept = 2, kResidual = 3 };

/// Names one stream of per-token random numbers: everything of the counter but the token id.
struct RandomStream {
  uint64_t seed = 0;         // Philox key
  uint32_t position = 0;     // of the token that is drawn
  uint32_t round_start = 0;  // 0 for kSample; position of the round's first drafted token otherwise
  RandomPurpose purpose = RandomPurpose::kSample;
  uint32_t sample_idx = 0;  // below 2^24

  /// The 32 random bits of one main-model token id.
  [[nodiscard]] constexpr uint32_t bits(uint32_t token_id) const {
    return philox4x32({token_id >> 2, position, round_start, static_cast<uint32_t>(purpose) | sample_idx << 8},
                      seed)[token_id & 3];
  }
};

/// Bits to a uniform number in the open interval (0, 1): (x + .5) 2^-32, which a double holds exactly.
constexpr double uniform_open(uint32_t bits) { return (bits + 0.5) * 0x1p-32; }

}  // namespace bass
