// A GPU as the executor sees it: memory, one queue of copies and kernels, errors.
//
// Two implementations: the CUDA runtime (gpu/, compiled where BASS_CUDA is on; no_gpu/ stands in its place otherwise)
// and the emulator (emulator/), which runs the same kernels on the processor.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>

#include "bass/status.h"
#include "kernels/cuda/kernel_list.h"
#include "kernels/cuda/library_numbers.h"
#include "kernels/cuda/thread_context.h"

namespace bass::cuda {

struct DeviceInfo {
  std::string name;
  size_t total_bytes = 0;
  int n_multiprocessors = 1;
  int compute_capability = 0;   // 90 for 9.0, of the GPU
  int code_capability = 0;      // that the kernels were compiled for: what later GPUs have more is not in them
  size_t max_shared_bytes = 0;  // that a block may ask for
  bool has_own_speed = true;    // times say what a kernel takes on a GPU
};

class DeviceBuffer;

/// out[r][c] (+)= sum_k w[c][k] x[r][k]. Sums in float32 are in the library's order, which may differ with the number
/// of rows; those in int32 are exact.
struct LibraryProduct {
  LibraryNumbers numbers = LibraryNumbers::kBf16;
  const void* w = nullptr;  // [n_out, n_in]; of bytes these and n_rows are multiples of kLibraryAlignment
  const void* x = nullptr;  // [n_rows, n_in]
  void* out = nullptr;      // float, of int8 int32: row r at r * out_stride numbers
  int64_t out_stride = 0;
  int32_t n_rows = 0;
  int32_t n_out = 0;
  int32_t n_in = 0;
  bool accumulates = false;  // bfloat16 only
};

/// Copies and kernels are done one after the other, in the order in which they are asked for, and later than the call:
/// `synchronize` waits for all of them. One thread uses a device. An error of a copy or a kernel is told by the next
/// synchronize, and by all later ones: such a device is lost.
class Device {
 public:
  virtual ~Device() = default;

  [[nodiscard]] virtual const DeviceInfo& info() const = 0;
  [[nodiscard]] virtual size_t free_bytes() const = 0;

  /// Memory of the device, 256-byte aligned; contents undefined. nullptr: there is not so much. Releasing memory waits
  /// for all queued work, as CUDA does; release(nullptr) is nothing.
  virtual std::byte* allocate(size_t n_bytes) = 0;
  virtual void release(std::byte* memory) = 0;
  /// Memory of the host that copies go to and from without a detour. nullptr: there is not so much.
  virtual std::byte* allocate_host(size_t n_bytes) = 0;
  virtual void release_host(std::byte* memory) = 0;

  /// The host's memory must stay as it is until synchronize.
  virtual void upload(void* to_device, const void* from_host, size_t n_bytes) = 0;
  virtual void download(void* to_host, const void* from_device, size_t n_bytes) = 0;
  virtual void copy(void* to_device, const void* from_device, size_t n_bytes) = 0;
  virtual void fill(void* to_device, int byte, size_t n_bytes) = 0;

  /// arguments: the kernel's struct, copied by the call. A grid without blocks is nothing.
  virtual void launch(KernelId kernel, const void* arguments, size_t n_bytes, const LaunchShape& shape) = 0;

  /// Opens the library that `multiply` needs. Error (kUnavailable): it is not there. What it can multiply is another
  /// question: kFp8 needs compute capability 8.9.
  virtual Status open_library() = 0;
  /// Queues a product; open_library has succeeded. No rows: nothing. False, and nothing is queued: the library knows no
  /// way for this shape. Without another way that is an error of the device.
  virtual bool multiply(const LibraryProduct& product, bool has_other_way) = 0;

  /// What is queued up to end_graph (kernels, products, fills and copies within the device's memory) is recorded as a
  /// graph and not done. Pointers and sizes are kept as they are; what the memory holds is read when the graph runs.
  virtual void begin_graph() = 0;
  /// Names the graph for launch_graph, as long as the device lives. kNoGraph: there is no memory for it, or something
  /// in it cannot be recorded; what was queued has not been done.
  virtual int end_graph() = 0;
  static constexpr int kNoGraph = -1;
  /// Queues all of a graph at the cost of one launch.
  virtual void launch_graph(int graph) = 0;

  /// Notes when the queue comes here. idx: below kMaxMarks, at most once between two synchronizes.
  static constexpr int kMaxMarks = 64;
  virtual void mark(int idx) = 0;
  /// Seconds from one mark to another, both of work that was waited for. Not a number after an error.
  virtual double seconds_between(int first, int second) = 0;

  virtual Status synchronize() = 0;
};

/// Queues a kernel.
template <class Kernel>
void launch(Device& device, const Kernel& kernel, const LaunchShape& shape) {
  static_assert(std::is_trivially_copyable_v<Kernel> && sizeof(Kernel) <= 4096);
  device.launch(kKernelId<Kernel>, &kernel, sizeof(Kernel), shape);
}

/// Owns memory of a device, or of the host for copies. Movable, not copyable. ok() is false when there was none.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(Device* device, size_t n_bytes, bool of_host = false)
      : device_(device), of_host_(of_host), n_bytes_(n_bytes) {
    if (n_bytes > 0) data_ = of_host ? device->allocate_host(n_bytes) : device->allocate(n_bytes);
  }
  DeviceBuffer(DeviceBuffer&& other) noexcept { *this = std::move(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(of_host_, other.of_host_);
    std::swap(n_bytes_, other.n_bytes_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~DeviceBuffer() {
    if (data_ == nullptr) return;
    if (of_host_) {
      device_->release_host(data_);
    } else {
      device_->release(data_);
    }
  }

  [[nodiscard]] bool ok() const { return n_bytes_ == 0 || data_ != nullptr; }
  [[nodiscard]] size_t n_bytes() const { return n_bytes_; }
  [[nodiscard]] std::byte* data() const { return data_; }
  template <class T>
  [[nodiscard]] T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  Device* device_ = nullptr;
  bool of_host_ = false;
  size_t n_bytes_ = 0;
  std::byte* data_ = nullptr;
};

/// Whether this build has a GPU backend, whatever the machine has.
bool has_gpu_backend();

/// The GPU with this index. Errors (kUnavailable, kInvalidArgument) say whether this build, the driver or the GPU is
/// what is missing.
Result<std::unique_ptr<Device>> open_gpu(int idx);

}  // namespace bass::cuda
