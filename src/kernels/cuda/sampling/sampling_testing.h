// What the tests of drawing and verifying share.
#pragma once

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/cpu/kernels.h"

namespace bass::cuda::testing {

inline const cpu::Kernels& cpu_kernels() { return *cpu::find_kernels(cpu::Isa::kScalar); }

inline std::vector<float> random_logits(size_t n, std::mt19937& random, float deviation = 3.0f) {
  std::normal_distribution<float> normal(0.0f, deviation);
  std::vector<float> logits(n);
  // Half of them on a coarse grid, so that there are equal ones.
  for (float& x : logits) x = random() % 2 == 0 ? normal(random) : std::round(normal(random) * 2) / 2;
  return logits;
}

inline bool same_float(float a, float b) { return std::memcmp(&a, &b, sizeof(a)) == 0 || (a != a && b != b); }

}  // namespace bass::cuda::testing
