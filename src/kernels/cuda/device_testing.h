// What the tests of the device's kernels share: arrays in device memory, and on which devices they run.
#pragma once

#include <cstdlib>
#include <memory>
#include <vector>

#include "base/check.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/emulator/emulated_device.h"

namespace bass::cuda::testing {

/// tools/gpu_check.sh proves the kernels on a GPU: without one tests would pass, having shown nothing.
inline bool must_have_gpu() { return std::getenv("BASS_TEST_GPU") != nullptr; }

/// Null where this build or this machine has none.
inline std::unique_ptr<Device> real_gpu() {
  Result<std::unique_ptr<Device>> gpu = open_gpu(0);
  BASS_CHECK(gpu.ok() || !must_have_gpu());
  return gpu.ok() ? std::move(gpu).value() : nullptr;
}

/// The emulator in both orders; a real GPU as well where this build and this machine have one. The GPU alone where it
/// is what is proven, as its time is dear.
inline std::vector<std::unique_ptr<Device>> all_devices() {
  std::vector<std::unique_ptr<Device>> devices;
  if (must_have_gpu()) {
    devices.push_back(real_gpu());
    return devices;
  }
  devices.push_back(open_emulated_device());
  EmulatedDeviceOptions descending;
  descending.emulator.order = EmulatorOrder::kDescending;
  devices.push_back(open_emulated_device(descending));
  if (std::unique_ptr<Device> gpu = real_gpu()) devices.push_back(std::move(gpu));
  return devices;
}

/// An array of a device, filled from the host.
template <class T>
class DeviceArray {
 public:
  DeviceArray(Device* device, const std::vector<T>& values)
      : device_(device), n_(values.size()), memory_(device, values.size() * sizeof(T)) {
    BASS_CHECK(memory_.ok());
    device->upload(memory_.data(), values.data(), n_ * sizeof(T));
    BASS_CHECK(device->synchronize().ok());
  }
  [[nodiscard]] T* data() const { return memory_.as<T>(); }
  /// Does all queued work.
  [[nodiscard]] std::vector<T> read() const {
    std::vector<T> values(n_);
    device_->download(values.data(), memory_.data(), n_ * sizeof(T));
    BASS_CHECK(device_->synchronize().ok());
    return values;
  }

 private:
  Device* device_;
  size_t n_;
  DeviceBuffer memory_;
};

}  // namespace bass::cuda::testing
