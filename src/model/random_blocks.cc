#include "model/random_blocks.h"

#include <array>
#include <cmath>
#include <cstring>
#include <numbers>

#include "base/check.h"
#include "base/philox.h"

namespace bass {
namespace {

static_assert(kRandomUnitLen == kGroupLen);

/// The random numbers of one unit: as many as it asks for, by index.
class UnitRandom {
 public:
  UnitRandom(const RandomTensor& tensor, int64_t unit_idx)
      : seed_(tensor.seed),
        low_(static_cast<uint32_t>(unit_idx)),
        high_(static_cast<uint32_t>(static_cast<uint64_t>(unit_idx) >> 32)),
        tensor_idx_(tensor.tensor_idx) {}

  [[nodiscard]] PhiloxWords words(uint32_t i) const { return philox4x32({low_, high_, tensor_idx_, i}, seed_); }

 private:
  uint64_t seed_;
  uint32_t low_, high_, tensor_idx_;
};

// Behind the words that quants are made of.
constexpr uint32_t kScaleWords = 8;

/// A block's scale for quants of this standard deviation: a factor from 0.5 to 1.5 of what std_dev asks for.
float random_scale(const UnitRandom& random, float std_dev, float quant_std_dev) {
  const auto factor = static_cast<float>(0.5 + uniform_open(random.words(kScaleWords)[0]));
  return std_dev / quant_std_dev * factor;
}

bool random_sign(const UnitRandom& random) { return (random.words(kScaleWords)[1] & 1) != 0; }

/// Standard deviation of the uniform distribution over n_levels neighbouring whole numbers.
float uniform_std_dev(int n_levels) { return std::sqrt(static_cast<float>(n_levels * n_levels - 1) / 12.0f); }

void fill_q8_0(const UnitRandom& random, float std_dev, std::byte* out) {
  BlockQ8_0 block;
  block.d = f32_to_f16(random_scale(random, std_dev, uniform_std_dev(255)));
  for (uint32_t i = 0; i < 2; ++i) {
    const PhiloxWords words = random.words(i);
    std::memcpy(block.q + 16 * i, words.data(), sizeof(words));
  }
  for (int8_t& q : block.q) q = q == -128 ? int8_t{0} : q;  // files hold -127 to 127
  std::memcpy(out, &block, sizeof(block));
}

// Levels are -8 to 7: the scale's sign makes the mean 0.
void fill_q4_0(const UnitRandom& random, float std_dev, std::byte* out) {
  const float scale = random_scale(random, std_dev, uniform_std_dev(16));
  BlockQ4_0 block;
  block.d = f32_to_f16(random_sign(random) ? -scale : scale);
  const PhiloxWords words = random.words(0);
  std::memcpy(block.q, words.data(), sizeof(block.q));
  std::memcpy(out, &block, sizeof(block));
}

void fill_q4_1(const UnitRandom& random, float std_dev, std::byte* out) {
  constexpr float kMeanQuant = 7.5f;
  const float scale = random_scale(random, std_dev, uniform_std_dev(16));
  BlockQ4_1 block;
  block.d = f32_to_f16(scale);
  block.m = f32_to_f16(-kMeanQuant * scale);
  const PhiloxWords words = random.words(0);
  std::memcpy(block.q, words.data(), sizeof(block.q));
  std::memcpy(out, &block, sizeof(block));
}

template <class T, class Convert>
void fill_floats(const UnitRandom& random, float std_dev, std::byte* out, Convert convert) {
  const double half_width = std_dev * std::numbers::sqrt3;
  for (uint32_t i = 0; i < kGroupLen / 4; ++i) {
    const PhiloxWords words = random.words(i);
    for (size_t k = 0; k < words.size(); ++k) {
      const T value = convert(static_cast<float>((2 * uniform_open(words[k]) - 1) * half_width));
      std::memcpy(out + (i * words.size() + k) * sizeof(T), &value, sizeof(T));
    }
  }
}

void fill_f32(const UnitRandom& random, float std_dev, std::byte* out) {
  fill_floats<float>(random, std_dev, out, [](float value) { return value; });
}
void fill_f16(const UnitRandom& random, float std_dev, std::byte* out) {
  fill_floats<uint16_t>(random, std_dev, out, f32_to_f16);
}
// Truncated: random bits need no rounding.
void fill_bf16(const UnitRandom& random, float std_dev, std::byte* out) {
  fill_floats<uint16_t>(random, std_dev, out,
                        [](float value) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16); });
}

using FillUnit = void (*)(const UnitRandom& random, float std_dev, std::byte* out);

constexpr std::array<DType, 6> kTypes{DType::kQ4_0, DType::kQ4_1, DType::kQ8_0, DType::kF16, DType::kBF16, DType::kF32};
constexpr std::array<FillUnit, kTypes.size()> kFills{fill_q4_0, fill_q4_1, fill_q8_0, fill_f16, fill_bf16, fill_f32};

FillUnit fill_of(DType type) {
  size_t i = 0;
  while (i < kTypes.size() && kTypes[i] != type) ++i;
  BASS_CHECK(i < kTypes.size());
  return kFills[i];
}

}  // namespace

std::span<const DType> random_types() { return kTypes; }

size_t random_unit_bytes(DType type) {
  const DTypeInfo& info = dtype_info(type);
  return static_cast<size_t>(kRandomUnitLen / info.block_len) * static_cast<size_t>(info.block_bytes);
}

void fill_random_units(const RandomTensor& tensor, int64_t first, int64_t n, std::byte* out) {
  const FillUnit fill = fill_of(tensor.type);
  const size_t unit_bytes = random_unit_bytes(tensor.type);
  for (int64_t i = 0; i < n; ++i)
    fill(UnitRandom(tensor, first + i), tensor.std_dev, out + static_cast<size_t>(i) * unit_bytes);
}

}  // namespace bass
