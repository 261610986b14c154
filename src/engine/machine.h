// What this machine can do at best: the limits that speed is compared with.
#pragma once

#include "bass/status.h"

namespace bass {

struct MachinePeaks {
  double bandwidth_gb_s = 0;  // bytes that all threads together read from memory, 10^9 a second
  double peak_tops = 0;       // int8 multiplications and additions from registers, 10^12 a second
};

/// Measures for about a third of a second, with `n_threads` threads on the instruction set that the engine would use.
Result<MachinePeaks> measure_machine(int n_threads);

/// The same, measured once for a processor, instruction set and thread count and then kept in the cache folder
/// (${XDG_CACHE_HOME:-~/.cache}/bass). A cache that cannot be read or written is no error.
Result<MachinePeaks> cached_machine_peaks(int n_threads);

}  // namespace bass
