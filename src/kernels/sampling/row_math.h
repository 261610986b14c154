// Arithmetic of rows that the CPU and a GPU must agree on to the bit: plain operations in double precision, in the
// order in which they stand here (no library functions, whose last bits differ), and masses as whole numbers, whose
// sums do not depend on their order.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cpu/kernels.h"
#include "kernels/cuda/host_device.h"

namespace bass {

/// e^x within 2 ulp; 0 below -708. For x <= 709.
///
/// x = n ln 2 + r with |r| <= ln 2 / 2; e^r by its series to r^13, whose rest is below 4e-18.
BASS_HD double exp_of(double x) {
  if (!(x > -708.0)) return 0.0;
  const double rounder = 0x1.8p52;
  const double n = (x * 1.4426950408889634 + rounder) - rounder;
  const double r = (x - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33;  // the product with the upper part is exact
  double p = 1.0 / 6227020800.0;
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  const int64_t exponent_bits = (static_cast<int64_t>(n) + 1023) << 52;
  double scale;
  memcpy(&scale, &exponent_bits, sizeof(scale));
  return p * scale;
}

/// A token's mass relative to the most probable one's, in units of 2^-44, cut off: 2^19 of them fit into 64 bits.
inline constexpr double kMassUnits = 0x1p44;
BASS_HD uint64_t mass_of(float z, float max_z) {
  return static_cast<uint64_t>(exp_of(static_cast<double>(z) - static_cast<double>(max_z)) * kMassUnits);
}

/// Both sets are the front of the same order (logit descending, id ascending), so one contains the other.
BASS_HD cpu::KeptSet smaller_of(const cpu::KeptSet& a, const cpu::KeptSet& b) {
  if (a.cut_value != b.cut_value) return a.cut_value > b.cut_value ? a : b;
  return a.cut_id < b.cut_id ? a : b;
}

/// Distance from the maximum at which the search for a cut starts; doubled until the cut lies inside. e^-4 = 2 %.
inline constexpr float kInitialDelta = 4.0f;
/// The step behind 512 is everything that is finite.
BASS_HD float wider_delta(float delta) { return delta < 512.0f ? delta * 2 : __builtin_inff(); }

}  // namespace bass
