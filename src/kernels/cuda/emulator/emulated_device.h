// A device without a GPU, for tests: the same kernels and the same queue, on the processor.
#pragma once

#include "kernels/cuda/device.h"
#include "kernels/cuda/emulator/emulate.h"

namespace bass::cuda {

struct EmulatedDeviceOptions {
  size_t total_bytes = size_t{4} << 30;
  EmulatorOptions emulator;
  bool has_own_speed = false;                   // DeviceInfo
  int compute_capability = 90;                  // the same
  int code_capability = 90;                     // the same
  size_t max_shared_bytes = size_t{227} << 10;  // the same
  int max_library_rows = 1 << 30;               // of a product that the library knows a way for
  int max_graphs = 1 << 20;                     // that there is memory for
  int* n_waits = nullptr;                       // counts the calls of synchronize that waited for something, or null
  int* n_allocations = nullptr;                 // counts the calls of allocate and allocate_host, or null
};

/// Nothing is done before synchronize, so that whoever reads a result or changes what is copied too early is found out;
/// and the device's memory can be read and written by kernels and copies only: a host that touches it faults.
std::unique_ptr<Device> open_emulated_device(const EmulatedDeviceOptions& options = {});

}  // namespace bass::cuda
