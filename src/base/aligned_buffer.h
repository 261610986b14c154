// Memory straight from the system: weights, KV pages, workspaces.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <utility>

#include "base/numa.h"

namespace bass {

/// Zero-filled memory straight from the system, page-aligned; resident only where touched. Movable, not copyable.
/// `ok()` is false when the system has none left.
class AlignedBuffer {
 public:
  /// Weights and caches get huge pages, and lie on all NUMA nodes that the threads run on. A workspace is smaller, and
  /// a step uses a few of its rows: a huge page would keep a hundred times their memory, and its first touch takes
  /// milliseconds where a host has to find one.
  static constexpr size_t kHugePagesFrom = size_t{8} << 20;
  enum class Use { kAll, kFewRows };

  AlignedBuffer() = default;
  explicit AlignedBuffer(size_t size_bytes, Use use = Use::kAll) : size_bytes_(size_bytes) {
    if (size_bytes == 0) return;
    void* data =
        ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) return;
    data_ = static_cast<std::byte*>(data);
    if (size_bytes < kHugePagesFrom) return;
    ::madvise(data_, size_bytes, use == Use::kAll ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);  // a hint
    if (use == Use::kAll) spread_over_nodes(data_, size_bytes);
  }
  AlignedBuffer(AlignedBuffer&& other) noexcept { *this = std::move(other); }
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_bytes_, other.size_bytes_);
    return *this;
  }
  ~AlignedBuffer() {
    if (data_ != nullptr) ::munmap(data_, size_bytes_);
  }

  [[nodiscard]] bool ok() const { return size_bytes_ == 0 || data_ != nullptr; }
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] size_t size_bytes() const { return size_bytes_; }
  template <class T>
  [[nodiscard]] T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  std::byte* data_ = nullptr;
  size_t size_bytes_ = 0;
};

}  // namespace bass
