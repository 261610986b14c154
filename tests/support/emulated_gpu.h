// Engines with device "cuda" where there is no GPU.
#pragma once

#include <cstdlib>

namespace bass::testing {

/// While it lives they run emulated, unless the tests are to run on a real GPU (BASS_TEST_GPU).
class EmulatedUnlessGpu {
 public:
  EmulatedUnlessGpu() {
    if (std::getenv("BASS_TEST_GPU") == nullptr) ::setenv("BASS_EMULATE_GPU", "1", 1);
  }
  ~EmulatedUnlessGpu() { ::unsetenv("BASS_EMULATE_GPU"); }
  EmulatedUnlessGpu(const EmulatedUnlessGpu&) = delete;
  EmulatedUnlessGpu& operator=(const EmulatedUnlessGpu&) = delete;
};

}  // namespace bass::testing
