// Random weights written straight in a file's formats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace bass {

/// Elements that are made at once: a whole number of blocks of every format here.
inline constexpr int64_t kRandomUnitLen = 32;

/// One tensor of random weights: independent, of mean 0 and about this standard deviation, uniform in what a block can
/// hold; blocks differ in their scale. Every unit depends on seed, tensor and its own index only, so that threads can
/// share the work.
struct RandomTensor {
  DType type = DType::kF32;
  uint64_t seed = 0;
  uint32_t tensor_idx = 0;
  float std_dev = 1.0f;
};

/// The types that random weights can have.
std::span<const DType> random_types();

/// Units [first, first + n) of a tensor. type: one of random_types. out: n units, no alignment.
void fill_random_units(const RandomTensor& tensor, int64_t first, int64_t n, std::byte* out);

/// Bytes of one unit.
size_t random_unit_bytes(DType type);

}  // namespace bass
