// Runs kernels on the processor.
#pragma once

#include "kernels/cuda/emulator/emulated_context.h"

namespace bass::cuda {

/// A kernel's body, without its type.
struct EmulatedKernel {
  const char* name = nullptr;
  bool cooperates = true;
  int max_threads = 0;
  void (*run_thread)(const void* kernel, EmulatedContext& context) = nullptr;
};

template <class Kernel>
constexpr EmulatedKernel emulated_kernel() {
  static_assert(std::is_trivially_copyable_v<Kernel>);
  return {Kernel::kName, Kernel::kCooperates, Kernel::kMaxThreads,
          [](const void* kernel, EmulatedContext& context) { (*static_cast<const Kernel*>(kernel))(context); }};
}

/// How the threads of a block are run.
enum class EmulatorMode {
  kFibers,   // on one thread, in turns that end at barriers: fast, and a barrier that some never reach is found
  kThreads,  // a std::thread each: what ThreadSanitizer can look at. Slow
};
/// In which order fibers, and blocks, get their turns. A kernel that lacks a barrier differs between the orders.
enum class EmulatorOrder { kAscending, kDescending };

struct EmulatorOptions {
  EmulatorMode mode;
  EmulatorOrder order = EmulatorOrder::kAscending;
  EmulatorOptions();  // fibers, or threads where ThreadSanitizer looks on
};

/// Runs all blocks, one after the other. kernel: of the type that `body` was made for. Shared memory begins with bytes
/// that are NaNs as floats.
void emulate(const EmulatedKernel& body, const void* kernel, const LaunchShape& shape, const EmulatorOptions& options);

}  // namespace bass::cuda
