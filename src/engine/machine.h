// What this machine can do at best: the limits that speed is compared with.
#pragma once

#include <cstdint>

#include "bass/status.h"

namespace bass {

/// int8 multiplications and additions from registers, 10^12 a second, of all threads together on the instruction set
/// that the engine would use. Takes about 20 ms.
Result<double> measure_peak_tops(int n_threads);

/// Bytes that all threads together read, 10^9 a second, when they read `n_bytes` of memory again and again: a step
/// reads a model's weights so. What fits a cache is read from it, so the result depends on n_bytes. Takes up to half a
/// second.
Result<double> measure_bandwidth_gb_s(int n_threads, int64_t n_bytes);

/// The highest peak ever measured for this processor, instruction set and thread count, this call's measurement
/// included: one that other programs disturbed does not stay. Kept in the cache folder; a cache that cannot be read or
/// written is no error.
Result<double> best_peak_tops(int n_threads);

}  // namespace bass
