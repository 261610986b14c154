// The ceiling of a weight format: what its matrix product reaches when nothing has to be read from memory.
#pragma once

#include <vector>

#include "base/thread_team.h"
#include "kernels/cpu/kernels.h"

namespace bass {

/// The formats that weights may have, in the order of their numbers.
std::vector<DType> weight_formats();

/// Multiplications and additions of the format's dot and scale loop, 10^12 a second of all threads together, with a
/// tile of weights and n_rows rows of activations in the first-level cache.
double measure_ceiling_tops(const cpu::Kernels& kernels, DType type, int n_rows, int n_planes, ThreadTeam* team);

}  // namespace bass
