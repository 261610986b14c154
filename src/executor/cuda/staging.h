// What a step's kernels read that the host has planned: put together in one place, copied in one go.
#pragma once

#include <cstring>
#include <span>
#include <utility>

#include "base/check.h"
#include "kernels/cuda/device.h"

namespace bass::cuda {

/// Room on the host and on the device for one step. What was appended keeps its place, so that it may be uploaded in
/// parts while earlier parts are still being copied.
class Staging {
 public:
  explicit Staging(Device* device) : device_(device) {}

  /// Takes memory for steps that append up to so many bytes. False: there is not so much, and what there was stays.
  [[nodiscard]] bool reserve(size_t n_bytes) {
    if (n_bytes <= host_.n_bytes()) return true;
    DeviceBuffer host(device_, n_bytes, /*of_host=*/true);
    DeviceBuffer memory(device_, n_bytes);
    if (!host.ok() || !memory.ok()) return false;
    host_ = std::move(host);
    memory_ = std::move(memory);
    return true;
  }
  /// Of the host, and as many of the device.
  [[nodiscard]] size_t n_bytes() const { return host_.n_bytes(); }

  /// Begins a step that appends at most n_bytes, each array rounded up to kAlignment, and takes more memory where
  /// `reserve` has not. Waits for nothing: the last step's work is done. False: there is no memory.
  [[nodiscard]] bool begin(size_t n_bytes) {
    n_used_ = n_uploaded_ = 0;
    return n_bytes <= host_.n_bytes() || reserve(2 * n_bytes) || reserve(n_bytes);
  }

  static constexpr size_t kAlignment = 64;
  static constexpr size_t aligned(size_t n_bytes) { return (n_bytes + kAlignment - 1) / kAlignment * kAlignment; }

  /// Where the values will be in device memory once `upload` has been done.
  template <class T>
  const T* append(std::span<const T> values) {
    const size_t at = n_used_;
    BASS_CHECK(at + values.size_bytes() <= host_.n_bytes());
    if (!values.empty()) std::memcpy(host_.data() + at, values.data(), values.size_bytes());
    n_used_ = aligned(at + values.size_bytes());
    return reinterpret_cast<const T*>(memory_.data() + at);
  }

  /// Copies the values to a place of the caller's in device memory. Nothing that was appended waits for its upload.
  template <class T>
  void upload_to(T* place, std::span<const T> values) {
    BASS_CHECK(n_uploaded_ == n_used_);
    const size_t at = n_used_;
    append(values);
    n_uploaded_ = n_used_;
    device_->upload(place, host_.data() + at, values.size_bytes());
  }

  /// Queues the copy of what was appended since the last.
  void upload() {
    const size_t n = std::min(n_used_, host_.n_bytes()) - n_uploaded_;
    if (n > 0) device_->upload(memory_.data() + n_uploaded_, host_.data() + n_uploaded_, n);
    n_uploaded_ += n;
  }

 private:
  Device* device_;
  DeviceBuffer host_;
  DeviceBuffer memory_;
  size_t n_used_ = 0;
  size_t n_uploaded_ = 0;
};

}  // namespace bass::cuda
