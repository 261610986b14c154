// This program's operator new: it counts, and fails when told to.
#pragma once

#include <cstdint>

namespace bass::testing {

/// Of the whole process, whichever thread, since it began.
int64_t n_allocations();
/// Allocated and not yet released.
int64_t n_live_allocations();

/// Lets the nth allocation from now on fail (and with `all_after` every later one) while it lives. One at a time.
class Fault {
 public:
  Fault(int64_t n, bool all_after);
  ~Fault();
  Fault(const Fault&) = delete;
  Fault& operator=(const Fault&) = delete;
};

/// Allocations that the last Fault let fail.
int64_t n_failed_allocations();

}  // namespace bass::testing
