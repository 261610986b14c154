#include "kernels/cuda/emulator/emulated_device.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/check.h"
#include "kernels/cuda/arithmetic.h"
#include "kernels/cuda/emulator/kernel_bodies.h"
#include "tensor/dtype.h"

namespace bass::cuda {
namespace {

constexpr int kUndefinedByte = 0xFF;  // a NaN as floats, -1 as numbers

// One of the orders that a library might take. Number: of w and x; to_sum: what it is in a sum.
template <class Number, class Sum, class ToSum>
void emulate_product_of(const LibraryProduct& p, ToSum to_sum) {
  const auto* w = static_cast<const Number*>(p.w);
  const auto* x = static_cast<const Number*>(p.x);
  for (int64_t r = 0; r < p.n_rows; ++r) {
    for (int64_t c = 0; c < p.n_out; ++c) {
      Sum sum = 0;
      for (int64_t k = 0; k < p.n_in; ++k) sum += to_sum(w[c * p.n_in + k]) * to_sum(x[r * p.n_in + k]);
      Sum& out = static_cast<Sum*>(p.out)[r * p.out_stride + c];
      out = p.accumulates ? out + sum : sum;
    }
  }
}

void emulate_product(const LibraryProduct& p) {
  if (has_byte_numbers(p.numbers)) {  // what cuBLASLt refuses
    for (const int n : {p.n_rows, p.n_out, p.n_in}) BASS_CHECK(n % kLibraryAlignment == 0);
    for (const void* numbers : {p.w, p.x}) BASS_CHECK(reinterpret_cast<uintptr_t>(numbers) % kLibraryAlignment == 0);
    BASS_CHECK(!p.accumulates);
  }
  switch (p.numbers) {
    case LibraryNumbers::kNone:
      break;
    case LibraryNumbers::kBf16:
      return emulate_product_of<uint16_t, float>(p, bf16_to_f32);
    case LibraryNumbers::kInt8:
      return emulate_product_of<int8_t, int32_t>(p, [](int8_t x) { return int32_t{x}; });
    case LibraryNumbers::kFp8:
      return emulate_product_of<uint8_t, float>(p, from_e4m3);
  }
}

class EmulatedDevice final : public Device {
 public:
  explicit EmulatedDevice(const EmulatedDeviceOptions& options) : options_(options), free_bytes_(options.total_bytes) {
    info_.name = "emulated GPU";
    info_.total_bytes = options.total_bytes;
    info_.n_multiprocessors = 4;
    info_.compute_capability = options.compute_capability;
    info_.code_capability = std::min(options.compute_capability, options.code_capability);
    info_.max_shared_bytes = options.max_shared_bytes;
    info_.has_own_speed = options.has_own_speed;
  }

  [[nodiscard]] const DeviceInfo& info() const override { return info_; }
  [[nodiscard]] size_t free_bytes() const override { return free_bytes_; }

  std::byte* allocate(size_t n_bytes) override {
    count_allocation();
    if (n_bytes == 0 || n_bytes > free_bytes_) return nullptr;
    AlignedBuffer memory(n_bytes);
    if (!memory.ok()) return nullptr;
    if (n_bytes <= kFilledBytes) std::memset(memory.data(), kUndefinedByte, n_bytes);
    ::mprotect(memory.data(), n_bytes, PROT_NONE);
    free_bytes_ -= n_bytes;
    std::byte* data = memory.data();
    memory_.emplace(data, std::move(memory));
    return data;
  }
  void release(std::byte* memory) override {
    if (memory == nullptr) return;
    const auto found = memory_.find(memory);
    BASS_CHECK(found != memory_.end());
    run_queue();
    free_bytes_ += found->second.size_bytes();
    memory_.erase(found);
  }
  std::byte* allocate_host(size_t n_bytes) override {
    count_allocation();
    auto* memory = static_cast<std::byte*>(std::malloc(n_bytes));
    if (memory != nullptr) host_memory_.emplace(memory, n_bytes);
    return memory;
  }
  // CUDA does not say that this waits: copies that are queued must not go to or from it.
  void release_host(std::byte* memory) override {
    if (memory == nullptr) return;
    const auto found = host_memory_.find(memory);
    BASS_CHECK(found != host_memory_.end());
    for (const std::byte* end : copied_host_) BASS_CHECK(end < memory || end >= memory + found->second);
    host_memory_.erase(found);
    std::free(memory);
  }

  void upload(void* to_device, const void* from_host, size_t n_bytes) override {
    BASS_CHECK(!is_recording());
    if (n_bytes > 0) copied_host_.push_back(static_cast<const std::byte*>(from_host));
    queue_copy(to_device, from_host, n_bytes);
  }
  void download(void* to_host, const void* from_device, size_t n_bytes) override {
    BASS_CHECK(!is_recording());
    if (n_bytes > 0) copied_host_.push_back(static_cast<const std::byte*>(to_host));
    queue_copy(to_host, from_device, n_bytes);
  }
  void copy(void* to_device, const void* from_device, size_t n_bytes) override {
    queue_copy(to_device, from_device, n_bytes);
  }
  void fill(void* to_device, int byte, size_t n_bytes) override {
    recorder_->emplace_back([=] { std::memset(to_device, byte, n_bytes); });
  }

  void launch(KernelId kernel, const void* arguments, size_t n_bytes, const LaunchShape& shape) override {
    if (shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0) return;
    BASS_CHECK(shape.shared_bytes <= info_.max_shared_bytes);
    const auto* bytes = static_cast<const std::byte*>(arguments);
    // Kernels may hold 16-byte aligned members: a vector's memory is aligned so.
    recorder_->emplace_back([this, kernel, shape, copied = std::vector<std::byte>(bytes, bytes + n_bytes)] {
      emulate(kernel_body(kernel), copied.data(), shape, options_.emulator);
    });
  }

  Status open_library() override { return ok_status(); }
  bool multiply(const LibraryProduct& product, bool has_other_way) override {
    const bool is_known = product.n_rows <= options_.max_library_rows;
    if (is_known) recorder_->emplace_back([product] { emulate_product(product); });
    is_lost_ |= !is_known && !has_other_way;
    return is_known;
  }

  void begin_graph() override {
    BASS_CHECK(!is_recording());
    recorder_ = &graphs_.emplace_back();
  }
  int end_graph() override {
    BASS_CHECK(is_recording());
    recorder_ = &queue_;
    if (static_cast<int>(graphs_.size()) > options_.max_graphs) {
      graphs_.pop_back();
      return kNoGraph;
    }
    return static_cast<int>(graphs_.size()) - 1;
  }
  void launch_graph(int graph) override {
    BASS_CHECK(!is_recording());
    queue_.emplace_back([&recorded = graphs_.at(static_cast<size_t>(graph))] {
      for (const auto& work : recorded) work();
    });
  }

  void mark(int idx) override {
    BASS_CHECK(!is_recording());
    recorder_->emplace_back([this, idx] { marks_.at(static_cast<size_t>(idx)) = std::chrono::steady_clock::now(); });
  }
  double seconds_between(int first, int second) override {
    const std::chrono::duration<double> elapsed =
        marks_.at(static_cast<size_t>(second)) - marks_.at(static_cast<size_t>(first));
    return elapsed.count();
  }

  Status synchronize() override {
    BASS_CHECK(!is_recording());
    if (options_.n_waits != nullptr && !queue_.empty()) ++*options_.n_waits;
    run_queue();
    return is_lost_ ? internal_error("the library knows no way for a product") : ok_status();
  }

 private:
  // Larger memory stays as the system gives it, so that what is never used costs nothing.
  static constexpr size_t kFilledBytes = size_t{64} << 20;

  [[nodiscard]] bool is_recording() const { return recorder_ != &queue_; }
  void count_allocation() const {
    if (options_.n_allocations != nullptr) ++*options_.n_allocations;
  }
  void run_queue() {
    BASS_CHECK(!is_recording());
    if (queue_.empty()) return;
    set_protection(PROT_READ | PROT_WRITE);
    for (const auto& work : queue_) work();
    queue_.clear();
    copied_host_.clear();
    set_protection(PROT_NONE);
  }
  void queue_copy(void* to, const void* from, size_t n_bytes) {
    if (n_bytes == 0) return;
    recorder_->emplace_back([=] { std::memcpy(to, from, n_bytes); });
  }
  void set_protection(int protection) {
    for (const auto& [data, memory] : memory_) ::mprotect(data, memory.size_bytes(), protection);
  }

  EmulatedDeviceOptions options_;
  DeviceInfo info_;
  size_t free_bytes_;
  std::map<std::byte*, AlignedBuffer> memory_;
  std::map<std::byte*, size_t> host_memory_;
  std::vector<const std::byte*> copied_host_;  // what queued copies read and write of the host's memory
  using Queue = std::vector<std::function<void()>>;
  Queue queue_;
  std::deque<Queue> graphs_;
  bool is_lost_ = false;
  Queue* recorder_ = &queue_;  // or the graph that is recorded
  std::array<std::chrono::steady_clock::time_point, kMaxMarks> marks_{};
};

}  // namespace

std::unique_ptr<Device> open_emulated_device(const EmulatedDeviceOptions& options) {
  return std::make_unique<EmulatedDevice>(options);
}

}  // namespace bass::cuda
