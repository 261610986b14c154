// What this machine can do at best: the limits that speed is compared with.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bass/status.h"
#include "bass/work.h"

namespace bass {

/// "model name" of /proc/cpuinfo, or "unknown".
std::string processor_name();

/// The measured limits of some number of threads together. 0: not measured.
struct MachineLimits {
  double bandwidth_gb_s = 0;     ///< bytes read, 10^9 a second
  ByOperationClass peak_tops{};  ///< multiplications and additions from registers, 10^12 a second
};

/// Of an even number the mean of the middle two. values: at least one
double median_of(std::vector<double> values);

/// Each limit's median. On a shared machine limits move by half from second to second: what is measured in turns with a
/// piece of work says what that work could have taken, and the highest one does not. rounds: at least one
MachineLimits median_of(std::span<const MachineLimits> rounds);

/// The least time, in seconds, that `work` can take: the longer of reading its bytes and of doing the operations of all
/// classes one after the other. 0 where a limit was not measured.
double limit_seconds(const Work& work, const MachineLimits& limits);

/// limit_seconds over the time that the work took; 0 if it took none.
double limit_fraction(const Work& work, const MachineLimits& limits, double seconds);

/// Both limits, on the instruction set that the engine would use. Takes up to a second.
Result<MachineLimits> measure_limits(int n_threads, int64_t n_bytes);

/// Multiplications and additions of one class of instructions from registers, 10^12 a second. Takes about 20 ms.
Result<double> measure_peak_tops(OperationClass kind, int n_threads);

/// Bytes that all threads together read, 10^9 a second, when they read `n_bytes` of memory again and again: a step
/// reads a model's weights so. What fits a cache is read from it, so the result depends on n_bytes. Takes up to half a
/// second.
Result<double> measure_bandwidth_gb_s(int n_threads, int64_t n_bytes);

/// The highest int8 peak ever measured for this processor, instruction set and thread count, this call's measurement
/// included: one that other programs disturbed does not stay. Kept in the cache folder; a cache that cannot be read or
/// written is no error.
Result<double> best_peak_tops(int n_threads);

}  // namespace bass
